package stream

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Limits bound how many streams are open at a time. A stream costs two goroutines and some tens of KiB.
type Limits struct {
	// Streams in all, also before their Hello. Default 4096.
	Streams int
	// PerIdentity are the streams of one client certificate: of its first URI or DNS name, else its common name.
	// Default 512, for fleets that share a certificate. Without client certificates only Streams counts.
	PerIdentity int
}

// Check returns an error if a number is negative.
func (l Limits) Check() error {
	if l.Streams < 0 || l.PerIdentity < 0 {
		return fmt.Errorf("--max-streams %d and --max-streams-per-identity %d: want 1 at least, or 0 for the default",
			l.Streams, l.PerIdentity)
	}
	return nil
}

// streamCounter counts the open streams and refuses those beyond the limits.
type streamCounter struct {
	limits Limits

	mu      sync.Mutex
	total   int
	each    map[string]int
	refused uint64
}

func newStreamCounter(l Limits) streamCounter {
	l.Streams, l.PerIdentity = cmp.Or(l.Streams, 4096), cmp.Or(l.PerIdentity, 512)
	return streamCounter{limits: l, each: map[string]int{}}
}

// add counts a stream until remove is called. The error names the limit that is reached.
func (d *streamCounter) add(ctx context.Context) (remove func(), err error) {
	who := identity(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.total >= d.limits.Streams:
		d.refused++
		return nil, status.Errorf(codes.ResourceExhausted,
			"%d control streams are open, as many as --max-streams allows", d.total)
	case who != "" && d.each[who] >= d.limits.PerIdentity:
		d.refused++
		return nil, status.Errorf(codes.ResourceExhausted,
			"%d control streams are open with the certificate of %s, as many as "+
				"--max-streams-per-identity allows", d.each[who], who)
	}
	d.total++
	d.each[who]++
	return func() { d.remove(who) }, nil
}

func (d *streamCounter) remove(who string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.total--
	if d.each[who]--; d.each[who] == 0 {
		delete(d.each, who)
	}
}

// Refused counts the streams that were turned away because too many were open.
func (s *Server) Refused() uint64 {
	s.counter.mu.Lock()
	defer s.counter.mu.Unlock()
	return s.counter.refused
}

// identity returns the name in the client's certificate, "" without one.
func identity(ctx context.Context) string {
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return ""
	}
	secure, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(secure.State.VerifiedChains) == 0 || len(secure.State.VerifiedChains[0]) == 0 {
		return ""
	}
	certificate := secure.State.VerifiedChains[0][0]
	switch {
	case len(certificate.URIs) > 0:
		return certificate.URIs[0].String()
	case len(certificate.DNSNames) > 0:
		return certificate.DNSNames[0]
	}
	return certificate.Subject.CommonName
}
