package access

import (
	"context"
	"crypto/x509"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
)

// reviewEvery is the interval at which open streams are held to the policy and the CA of now: for so long a stream may
// outlive what allowed it. Shorter costs a stat of the policy file and a read of the CA file each time.
const reviewEvery = 2 * time.Second

// streams are the open streams.
type streams struct {
	mu   sync.Mutex
	open map[*bound]bool
}

// Stream guards streams, and binds an agent's Hello to its certificate.
func (g *Guard) Stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	c, err := g.admit(s.Context(), info.FullMethod, nothing)
	if err != nil {
		return err
	}
	b := &bound{ServerStream: s, g: g, method: info.FullMethod, caller: c}
	b.ctx, b.end = context.WithCancelCause(context.WithValue(s.Context(), callerKey{}, c))
	defer b.end(nil)
	g.streams.add(b)
	defer g.streams.remove(b)
	err = next(srv, b)
	if revoked := b.revoked(); revoked != nil {
		return revoked
	}
	return err
}

func (s *streams) add(b *bound) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[b] = true
}

func (s *streams) remove(b *bound) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, b)
}

func (s *streams) all() []*bound {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.open))
}

// Run ends streams that what allowed them no longer does, until ctx ends.
func (g *Guard) Run(ctx context.Context) {
	ticker := time.NewTicker(reviewEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			g.review()
		}
	}
}

// review holds all streams to what is in force now.
func (g *Guard) review() {
	open := g.streams.all()
	if len(open) == 0 {
		return
	}
	policy := g.current()
	var roots *x509.CertPool
	if g.of.Clients != nil {
		roots = g.of.Clients()
	}
	for _, b := range open {
		if err := b.still(policy, roots); err != nil {
			g.of.Log.Warn("a stream is ended: what allowed it no longer does", "who", b.caller.Name, "method", b.method,
				"reason", status.Convert(err).Message())
			b.end(err)
		}
	}
}

// bound is a stream whose Hello must carry a name that its certificate may have.
type bound struct {
	grpc.ServerStream
	g      *Guard
	method string
	caller *Caller
	ctx    context.Context
	end    context.CancelCauseFunc

	mu       sync.Mutex
	agent    string         // that it has said Hello as, "" = none yet
	verified *x509.CertPool // that the certificate was held to last, nil = that of the handshake
}

// Context ends with the stream, and when the stream is no longer allowed.
func (b *bound) Context() context.Context { return b.ctx }

// revoked is the status of a stream that was ended from here, nil of another.
func (b *bound) revoked() error {
	if cause := context.Cause(b.ctx); b.ServerStream.Context().Err() == nil && status.Code(cause) != codes.Unknown {
		return cause
	}
	return nil
}

// still returns a status for a stream that is no longer allowed.
func (b *bound) still(policy *Policy, roots *x509.CertPool) error {
	b.mu.Lock()
	agent, again := b.agent, b.verified != roots
	b.verified = roots
	b.mu.Unlock()
	expired := func(c *x509.Certificate) bool { return time.Now().After(c.NotAfter) }
	if !b.caller.sentToken() && (again || slices.ContainsFunc(chain(b.ctx), expired)) {
		if err := b.g.certified(b.ctx); err != nil {
			return status.Error(codes.Unauthenticated, err.Error())
		}
	}
	if !b.g.permits(b.caller, policy.of(b.caller), b.method, nil) || agent != "" && !b.may(policy, agent) {
		return status.Errorf(codes.PermissionDenied, "%s may no longer keep this stream: %s", b.caller.Name,
			b.g.missing(b.caller))
	}
	return nil
}

// may reports whether the caller may be the agent called name.
func (b *bound) may(policy *Policy, name string) bool {
	return b.g.of.AgentsUnknown || policy.mayBe(b.caller.ids, name)
}

// RecvMsg refuses a Hello under another's name.
func (b *bound) RecvMsg(m any) error {
	if err := b.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	r, ok := m.(*controlv1.ConnectRequest)
	if !ok || r.GetHello() == nil {
		return nil
	}
	name := r.GetHello().GetAgent()
	if b.may(b.g.current(), name) {
		b.mu.Lock()
		b.agent = name
		b.mu.Unlock()
		return nil
	}
	b.g.refusals.count(byRole)
	b.g.of.Log.Warn("an agent's name is not that of its certificate", "who", b.caller.Name, "agent", name)
	return status.Errorf(codes.PermissionDenied,
		"%s is not the certificate of agent %q: want a URI that ends with /%[2]s, "+
			"its DNS name, or a grant with names that allow it", b.caller.Name, name)
}
