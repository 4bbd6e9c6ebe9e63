package rls

import (
	"context"
	"math"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	api "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/agentlink"
	"github.com/titrate/titrate/envoy-filter/enforcer"
	"github.com/titrate/titrate/services/rls/ratelimitconfig"
	"github.com/titrate/titrate/services/rls/windows"
)

// Server answers requests. Create it with New.
type Server struct {
	api.UnimplementedRateLimitServiceServer

	o        Options
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

// decision is what becomes of one descriptor.
type decision struct {
	answer
	limited   bool // a limit applies
	unlimited bool
	shadow    bool // of the limit, as quota
	quota     bool
	name      string // of the limit, for others to replace it
	metric    string
}

// ShouldRateLimit decides a request.
func (s *Server) ShouldRateLimit(ctx context.Context, r *api.RateLimitRequest) (*api.RateLimitResponse, error) {
	switch {
	case r.GetDomain() == "":
		s.counts.invalid.Add(1)
		return nil, status.Error(codes.InvalidArgument, "rate limit domain must not be empty")
	case len(r.GetDescriptors()) == 0:
		s.counts.invalid.Add(1)
		return nil, status.Error(codes.InvalidArgument, "rate limit descriptor list must not be empty")
	}
	start := time.Now()
	defer func() { s.counts.latency.observe(time.Since(start)) }()
	if r.GetDomain() == Domain {
		return s.respond(r, s.decideDirectly(ctx, r)), nil
	}
	return s.decideByFiles(ctx, r)
}

// decideByFiles decides a request to a domain of the files.
func (s *Server) decideByFiles(ctx context.Context, r *api.RateLimitRequest) (*api.RateLimitResponse, error) {
	files := s.composer.files.Load()
	if !files.HasDomain(r.GetDomain()) {
		s.counts.unknownDomain.Add(1)
		return s.respond(r, make([]decision, len(r.GetDescriptors()))), nil
	}
	matches := make([]match, len(r.GetDescriptors()))
	for i, d := range r.GetDescriptors() {
		var err error
		if matches[i], err = s.match(files, r.GetDomain(), d); err != nil {
			s.counts.invalid.Add(1)
			return nil, err
		}
	}
	all := make([]decision, len(matches))
	for i := range matches {
		if ctx.Err() != nil { // nobody waits for the rest
			break
		}
		all[i] = s.decideMatch(ctx, &matches[i], hitsOf(r, r.GetDescriptors()[i]), replaced(matches, i))
	}
	return s.respond(r, all), nil
}

// match is what a descriptor is limited by.
type match struct {
	ratelimitconfig.Match
	tenant string // of the engine; "" with fixed windows
}

// match finds the limit of a descriptor: that of the files, or the one that it brings.
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
	m.Client = domain + "\x00" + m.Client // the tenant is that of all domains
	return match{m, tenant}, nil
}

// replaced reports whether another limit of the request replaces the i-th.
func replaced(all []match, i int) bool {
	if all[i].Limit == nil || all[i].Name == "" {
		return false
	}
	for _, m := range all {
		if m.Limit == nil {
			continue
		}
		for _, name := range m.Replaces {
			if name == all[i].Name {
				return true
			}
		}
	}
	return false
}

func (s *Server) decideMatch(ctx context.Context, m *match, hits uint64, replaced bool) decision {
	switch {
	case m.Limit == nil:
		return decision{}
	case m.Unlimited:
		return decision{unlimited: true}
	case replaced:
		return decision{}
	}
	d := decision{limited: true, shadow: m.Shadow, quota: m.Quota || s.o.Quota, name: m.Name, metric: m.Metric}
	if s.windows != nil {
		d.answer = s.count(m, hits)
	} else {
		d.answer = s.decide(ctx, m.tenant, m.Client, m.Requests, hits)
	}
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

// hitsOf is what a descriptor counts for: 0 asks only.
func hitsOf(r *api.RateLimitRequest, d *ratelimitv3.RateLimitDescriptor) uint64 {
	if d.GetHitsAddend() != nil {
		return d.GetHitsAddend().GetValue()
	}
	return uint64(max(1, r.GetHitsAddend()))
}

// unlimitedRemaining is what an unlimited descriptor has left.
const unlimitedRemaining = math.MaxUint32
