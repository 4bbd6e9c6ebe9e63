package rls

import (
	"context"
	"math"
	"runtime/debug"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	api "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/agentlink"
	"github.com/titrate/titrate/envoy-filter/enforcer"
	"github.com/titrate/titrate/services/intake"
	"github.com/titrate/titrate/services/rls/ratelimitconfig"
	"github.com/titrate/titrate/services/rls/windows"
)

// Server answers requests. Create it with New.
type Server struct {
	api.UnimplementedRateLimitServiceServer

	o        Options
	intake   *intake.Intake
	composer *composer
	enforcer *enforcer.Enforcer
	held     held
	link     *agentlink.Client
	watch    *watcher
	xds      *subscriber    // nil: there is no xDS server
	windows  *windows.Store // nil: the limits of the files slide
	now      func() time.Time
	counts   counts
}

// maxDescriptors bounds the descriptors of a request. Envoy makes one for each action of a route's rate
// limits.
const maxDescriptors = 1024

// decision is the decision about one descriptor.
type decision struct {
	answer
	limited   bool // a limit applies
	unlimited bool
	shadow    bool // of the limit, as quota
	quota     bool
	name      string // of the limit, for others to replace it
	metric    string
	metadata  *structpb.Struct // of the limit
}

// ShouldRateLimit decides a request.
func (s *Server) ShouldRateLimit(ctx context.Context, r *api.RateLimitRequest) (answer *api.RateLimitResponse,
	err error) {
	switch {
	case r.GetDomain() == "":
		s.counts.invalid.Add(1)
		return nil, status.Error(codes.InvalidArgument, "rate limit domain must not be empty")
	case len(r.GetDescriptors()) == 0:
		s.counts.invalid.Add(1)
		return nil, status.Error(codes.InvalidArgument, "rate limit descriptor list must not be empty")
	case len(r.GetDescriptors()) > maxDescriptors:
		s.counts.invalid.Add(1)
		return nil, status.Errorf(codes.InvalidArgument,
			"the request has %d rate limit descriptors: at most %d are allowed", len(r.GetDescriptors()),
			maxDescriptors)
	}
	defer func() {
		if fault := recover(); fault != nil {
			answer, err = nil, s.recovered(fault)
		}
	}()
	start := time.Now()
	all, err := s.decideAll(ctx, r)
	switch {
	case err != nil:
		s.counts.invalid.Add(1)
		return nil, err
	case ctx.Err() != nil: // nobody waits for the answer
		s.counts.abandoned.Add(1)
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	out := s.respond(r, all)
	s.counts.latency.observe(time.Since(start))
	return out, nil
}

// decideAll decides the descriptors of a request. Once nobody waits for it any more it decides nothing
// more.
func (s *Server) decideAll(ctx context.Context, r *api.RateLimitRequest) (all []decision, err error) {
	if r.GetDomain() == Domain {
		all = s.decideDirectly(ctx, r)
	} else if all, err = s.decideByFiles(ctx, r); err != nil {
		return nil, err
	}
	for i, d := range r.GetDescriptors() {
		if d.GetIsNegativeHits() && given(r, d) > 0 {
			s.counts.refunds.Add(1)
			all[i].over = false
		}
	}
	return all, nil
}

// recovered counts and logs a panic, and returns the status of its request: the caller does what it does
// while the service is away.
func (s *Server) recovered(fault any) error {
	s.counts.panics.Add(1)
	s.o.Log.Error("rate limit service: a request's handler panicked; others go on; please report this", "panic", fault,
		"stack", string(debug.Stack()))
	return status.Error(codes.Internal, "the request failed by a fault of this server, which is in its log")
}

// decideByFiles decides a request to a domain of the files.
func (s *Server) decideByFiles(ctx context.Context, r *api.RateLimitRequest) ([]decision, error) {
	all := make([]decision, len(r.GetDescriptors()))
	files := s.composer.files.Load()
	if !files.HasDomain(r.GetDomain()) {
		s.counts.unknownDomain.Add(1)
		return all, nil
	}
	matches, err := s.matchAll(ctx, files, r)
	if err != nil {
		return nil, err
	}
	var waits []*waiting
	replaced := replacedNames(matches)
	for i := range matches {
		if ctx.Err() != nil {
			break
		}
		var w *waiting
		if all[i], w = s.decideMatch(&matches[i], hitsOf(r, r.GetDescriptors()[i]), replaced); w != nil {
			w.descriptor = i
			waits = append(waits, w)
		}
	}
	for _, w := range waits {
		m, hits := &matches[w.descriptor], hitsOf(r, r.GetDescriptors()[w.descriptor])
		a := s.charged(&w.request, s.await(ctx, w), m.Requests)
		all[w.descriptor] = s.matched(m, a, hits)
	}
	return all, nil
}

// matchAll finds the limits of all descriptors.
func (s *Server) matchAll(
	ctx context.Context, files *ratelimitconfig.Config, r *api.RateLimitRequest,
) ([]match, error) {
	if s.windows == nil {
		s.composer.learn(r.GetDescriptors())
	}
	matches := make([]match, len(r.GetDescriptors()))
	for i, d := range r.GetDescriptors() {
		if ctx.Err() != nil {
			break
		}
		var err error
		if matches[i], err = s.match(files, r.GetDomain(), d); err != nil {
			return nil, err
		}
	}
	return matches, nil
}

// match is the limit of a descriptor.
type match struct {
	ratelimitconfig.Match
	tenant string // of the engine; "" with fixed windows
}

// match finds the limit of a descriptor: the limit of the files, or the descriptor's.
func (s *Server) match(
	files *ratelimitconfig.Config, domain string, d *ratelimitv3.RateLimitDescriptor,
) (match, error) {
	own := d.GetLimit()
	if own == nil {
		m := match{Match: ratelimitconfig.Find(files, domain, d.GetEntries())}
		if m.Limit != nil && !m.Unlimited && s.windows == nil {
			m.tenant = tenantOf(m.Limit)
		}
		return m, nil
	}
	unit := ratelimitconfig.Unit(own.GetUnit())
	if unit.Length() == 0 {
		return match{}, status.Errorf(codes.InvalidArgument,
			"the limit of a descriptor has the unit %v: want SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR",
			own.GetUnit())
	}
	m := ratelimitconfig.Match{Metric: domain + ".override", Client: ratelimitconfig.Client(d.GetEntries()),
		Limit: &ratelimitconfig.Limit{Domain: domain, Requests: own.GetRequestsPerUnit(), Unit: unit}}
	if s.windows != nil {
		return match{Match: m}, nil
	}
	tenant, ok := s.composer.override(own.GetRequestsPerUnit(), unit)
	if !ok {
		s.counts.overridesRefused.Add(1)
		return match{}, nil
	}
	m.Client = domain + "\x00" + m.Client // all domains share the tenant
	return match{m, tenant}, nil
}

// replacedNames are the names of the limits that limits of the request replace.
func replacedNames(all []match) (names map[string]bool) {
	for i := range all {
		if all[i].Limit == nil {
			continue
		}
		for _, name := range all[i].Replaces {
			if names == nil {
				names = map[string]bool{}
			}
			names[name] = true
		}
	}
	return names
}

// decideMatch decides a descriptor, or returns what it waits for.
func (s *Server) decideMatch(m *match, hits uint64, replaced map[string]bool) (decision, *waiting) {
	switch {
	case m.Limit == nil:
		return decision{}, nil
	case m.Unlimited:
		return decision{unlimited: true}, nil
	case m.Name != "" && replaced[m.Name]:
		return decision{}, nil
	case s.windows != nil:
		return s.matched(m, s.count(m, hits), hits), nil
	}
	a, w := s.decide(m.tenant, m.Client, m.Requests, hits)
	if w != nil {
		return decision{}, w
	}
	return s.matched(m, a, hits), nil
}

// matched is the decision that an answer of the limit makes.
func (s *Server) matched(m *match, a answer, hits uint64) decision {
	d := decision{answer: a, limited: true, shadow: m.Shadow, quota: m.Quota || s.o.Quota, name: m.Name,
		metric: m.Metric, metadata: m.Metadata}
	d.numbers = numbers{m.Name, m.Requests, m.Unit}
	if d.over && d.reason != limiter.ClientLimit { // the limit is gone, or a panic was recovered
		s.counts.undecided.Add(1)
		return decision{}
	}
	if d.over && d.reset == 0 { // it never passes
		d.reset = m.Unit.Length()
	}
	s.counts.hits.add(&d, hits)
	return d
}

// hitsOf returns the hits of a descriptor; with 0 it only asks. A refund charges nothing and gives nothing back: the
// bucket may have refilled since the charge.
func hitsOf(r *api.RateLimitRequest, d *ratelimitv3.RateLimitDescriptor) uint64 {
	if d.GetIsNegativeHits() {
		return 0
	}
	return given(r, d)
}

// given are the hits that a request states for a descriptor.
func given(r *api.RateLimitRequest, d *ratelimitv3.RateLimitDescriptor) uint64 {
	if d.GetHitsAddend() != nil {
		return d.GetHitsAddend().GetValue()
	}
	return uint64(max(1, r.GetHitsAddend()))
}

// unlimitedRemaining is the remaining number of an unlimited descriptor.
const unlimitedRemaining = math.MaxUint32
