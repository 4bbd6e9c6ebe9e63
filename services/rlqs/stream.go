package rlqs

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	api "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/titrate/titrate/envoy-filter/enforcer"
	"github.com/titrate/titrate/services/rlqs/assign"
	"github.com/titrate/titrate/services/rls/subject"
)

const (
	// maxEntries bounds the entries of a bucket id, and maxText each key and value, bytes.
	maxEntries, maxText = 32, 1024
	// actionsAtOnce bounds the actions of one message.
	actionsAtOnce = 1000
)

// StreamRateLimitQuotas takes the reports of one Envoy, and sends its assignments.
func (s *Server) StreamRateLimitQuotas(stream api.RateLimitQuotaService_StreamRateLimitQuotasServer) error {
	out := make(chan struct{}, 1)
	member, err := s.open(out)
	if err != nil {
		return err
	}
	defer s.close(member)
	ctx, cancel := context.WithCancelCause(stream.Context())
	go func() { // it ends with the stream
		defer s.enforcer.RecoverPanic("a report of a rate limit quota stream")
		defer cancel(status.Error(codes.Internal, "the report failed by a fault of this server, which is in its log"))
		cancel(s.receive(stream, member))
	}()
	for {
		select {
		case <-out:
		case <-s.stopping:
			return status.Error(codes.Unavailable, "this agent stops: ask another one")
		case <-ctx.Done():
			if err := context.Cause(ctx); !errors.Is(err, io.EOF) {
				return err
			}
			return nil
		}
		for actions := s.take(member); len(actions) > 0; actions = s.take(member) {
			if err := stream.Send(&api.RateLimitQuotaResponse{BucketAction: actions}); err != nil {
				return err
			}
		}
	}
}

// open registers a stream. wake gets a value when it has something to send.
func (s *Server) open(wake chan struct{}) (*assign.Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.book.Open(func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if err != nil {
		s.counts.refuse(refusedStream, time.Now())
		return nil, status.Errorf(codes.ResourceExhausted, "this agent has %d streams: it takes no more", maxStreams)
	}
	return m, nil
}

func (s *Server) close(m *assign.Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.book.Close(enforcer.Now(), m)
}

// receive takes reports until the stream ends.
func (s *Server) receive(stream api.RateLimitQuotaService_StreamRateLimitQuotasServer, m *assign.Stream) error {
	domain := ""
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		switch {
		case domain == "":
			if domain = r.GetDomain(); domain == "" {
				s.counts.refuse(refusedDomain, time.Now())
				return status.Error(codes.InvalidArgument, "the first report must name a domain")
			}
		case r.GetDomain() != "" && r.GetDomain() != domain:
			s.counts.refuse(refusedDomain, time.Now())
			return status.Errorf(codes.InvalidArgument, "a stream is for one domain, %.100q: open another for %.100q",
				domain, r.GetDomain())
		}
		s.report(m, domain, r.GetBucketQuotaUsages())
		s.hurry()
	}
}

// report takes the usages of a message.
func (s *Server) report(m *assign.Stream, domain string, all []*api.RateLimitQuotaUsageReports_BucketQuotaUsage) {
	s.counts.reports.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := enforcer.Now()
	for _, u := range all {
		entries := u.GetBucketId().GetBucket()
		if !valid(entries) {
			s.counts.refuse(refusedID, time.Now())
			continue
		}
		of := assign.Bucket{ID: name(domain, entries), Entries: entries, Foreign: domain != subject.Domain}
		switch err := s.book.Report(now, m, of, u.GetNumRequestsAllowed(), u.GetNumRequestsDenied()); {
		case errors.Is(err, assign.ErrStream):
			s.counts.refuse(refusedOfStream, time.Now())
		case err != nil:
			s.counts.refuse(refusedBucket, time.Now())
		}
	}
}

// valid reports whether a bucket id is within its bounds.
func valid(entries map[string]string) bool {
	for key, value := range entries {
		if len(key) > maxText || len(value) > maxText {
			return false
		}
	}
	return len(entries) > 0 && len(entries) <= maxEntries
}

// name returns one text for a bucket id. Different ids have different ones.
func name(domain string, entries map[string]string) string {
	var b strings.Builder
	write := func(text string) {
		b.WriteString(strconv.Itoa(len(text)))
		b.WriteByte(':')
		b.WriteString(text)
	}
	write(domain)
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		write(key)
		write(entries[key])
	}
	return b.String()
}

// take returns the next actions to be sent.
func (s *Server) take(m *assign.Stream) []*api.RateLimitQuotaResponse_BucketAction {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.book.Take(m, actionsAtOnce)
	out := make([]*api.RateLimitQuotaResponse_BucketAction, len(all))
	for i, a := range all {
		out[i] = message(a)
	}
	return out
}

// message is an action in the API's form.
func message(a assign.Action) *api.RateLimitQuotaResponse_BucketAction {
	out := &api.RateLimitQuotaResponse_BucketAction{BucketId: &api.BucketId{Bucket: a.Entries()}}
	if a.Kind == assign.Abandon {
		out.BucketAction = &api.RateLimitQuotaResponse_BucketAction_AbandonAction_{
			AbandonAction: &api.RateLimitQuotaResponse_BucketAction_AbandonAction{}}
		return out
	}
	strategy := &typev3.RateLimitStrategy{}
	switch a.Kind {
	case assign.AllowAll:
		strategy.Strategy = &typev3.RateLimitStrategy_BlanketRule_{BlanketRule: typev3.RateLimitStrategy_ALLOW_ALL}
	case assign.DenyAll:
		strategy.Strategy = &typev3.RateLimitStrategy_BlanketRule_{BlanketRule: typev3.RateLimitStrategy_DENY_ALL}
	default:
		// Envoy compares intervals by their nanoseconds: these differ with the seconds, and change no rate.
		strategy.Strategy = &typev3.RateLimitStrategy_TokenBucket{TokenBucket: &typev3.TokenBucket{
			MaxTokens: a.Burst, TokensPerFill: wrapperspb.UInt32(a.Tokens),
			FillInterval: &durationpb.Duration{Seconds: a.Seconds, Nanos: int32(a.Seconds)}}}
	}
	out.BucketAction = &api.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction_{
		QuotaAssignmentAction: &api.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction{
			AssignmentTimeToLive: durationpb.New(a.TTL), RateLimitStrategy: strategy}}
	return out
}
