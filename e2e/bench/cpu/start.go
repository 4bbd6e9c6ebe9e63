package cpu

import (
	"context"

	"github.com/titrate/titrate/e2e/bench/rig"
)

// plenty is a limit per client that no load here meets.
var plenty = []rig.Limit{{Tenant: "admit", Rate: 1_000_000}}

// stage collects what has been started. After an error its methods do nothing.
type stage struct {
	ctx  context.Context
	rig  *rig.Rig
	o    Options
	all  []variant
	ends []func() error
	err  error
}

// stop ends everything; what does not end, the rig kills.
func (s *stage) stop() {
	for _, end := range s.ends {
		_ = end()
	}
}

// envoy starts an Envoy; nil after an error.
func (s *stage) envoy(spec rig.Spec) *rig.Envoy {
	if s.err != nil {
		return nil
	}
	var e *rig.Envoy
	if e, s.err = s.rig.Envoy(s.ctx, spec); s.err != nil {
		return nil
	}
	s.ends = append(s.ends, e.Stop)
	return e
}

// add adds a variant with what it still lacks filled in.
func (s *stage) add(v variant, others rig.CPU) {
	if s.err != nil {
		return
	}
	v.processes = append(rig.CPU{v.envoy.Process}, others...)
	v.load.Duration = s.o.Duration
	if v.load.Tenant == "" {
		v.load.Tenant = "admit"
	}
	if v.load.Keys == 0 {
		v.load.Keys = s.o.Keys
	}
	if v.load.Connections == 0 {
		v.load.Connections = connections
	}
	s.all = append(s.all, v)
}

// start starts every variant. The stage must be stopped, also after an error.
func start(ctx context.Context, r *rig.Rig, o Options) (*stage, error) {
	s := &stage{ctx: ctx, rig: r, o: o}
	r.Say("cpu: starting an Envoy per variant, etcd, coordinator, agents, ratelimit, Redis")
	upstream := s.envoy(rig.Spec{Name: "upstream", Filter: rig.Plain})
	s.add(variant{name: plain, base: plain, envoy: s.envoy(rig.Spec{Name: "none", Filter: rig.Plain})}, nil)
	s.add(variant{name: "local_ratelimit", base: plain, envoy: s.envoy(rig.Spec{Name: "local", Filter: rig.Local})},
		nil)
	s.add(variant{name: "local_ratelimit, dynamic", base: plain,
		envoy: s.envoy(rig.Spec{Name: "dynamic", Filter: rig.Dynamic, Limits: plenty})}, nil)
	if s.err != nil {
		return s, s.err
	}
	s.add(variant{name: paced, base: paced, envoy: upstream, pace: queuedShare}, nil)
	for _, v := range []struct {
		name string
		spec rig.Spec
	}{
		{proxied, rig.Spec{Name: "none-proxied", Filter: rig.Plain}},
		{"local_ratelimit, proxied", rig.Spec{Name: "local-proxied", Filter: rig.Local}},
		{"local_ratelimit, dynamic, proxied", rig.Spec{Name: "dynamic-proxied", Filter: rig.Dynamic, Limits: plenty}},
	} {
		v.spec.Upstream = upstream.Port
		s.add(variant{name: v.name, base: proxied, envoy: s.envoy(v.spec)}, nil)
	}
	s.redis(upstream.Port)
	s.titrate(upstream.Port)
	return s, s.err
}

// redis adds ratelimit with its store, if there is one.
func (s *stage) redis(upstream int) {
	if s.err != nil || !s.rig.HasRateLimit() {
		return
	}
	var service *rig.RateLimit
	if service, s.err = s.rig.RateLimit(s.ctx, plenty); s.err != nil {
		return
	}
	s.ends = append(s.ends, service.Stop)
	s.add(variant{name: "ratelimit + Redis, proxied", base: proxied,
		envoy: s.envoy(rig.Spec{Name: "remote", Filter: rig.Remote, RateLimit: service.Port, Upstream: upstream})},
		service.Processes())
}

// titrate adds our variants. Clients that are refused are news to every gateway
// for as long as they are, which costs: they have an installation of their own,
// so that the others do not pay for them.
func (s *stage) titrate(upstream int) {
	direct, through := s.installation("admitting", upstream)
	limiting, _ := s.installation("limiting", upstream)
	if s.err != nil {
		return
	}
	s.add(variant{name: "titrate, admit", base: plain, envoy: direct.Envoy}, direct.Processes()[1:])
	s.add(variant{name: "titrate, reject", base: plain, envoy: limiting.Envoy, rejects: true,
		load: rig.Closed{Tenant: "reject", Keys: 1000}}, limiting.Processes()[1:])
	s.add(variant{name: "titrate, queued", base: paced, envoy: limiting.Envoy,
		load: rig.Closed{Tenant: "queued", Keys: 1000, Connections: 64}}, limiting.Processes()[1:])
	s.add(variant{name: "titrate, admit, proxied", base: proxied, envoy: through.Envoy}, through.Processes()[1:])
}

// installation starts one with two gateways: one answers, one sends on.
func (s *stage) installation(name string, upstream int) (direct, through *rig.Gateway) {
	if s.err != nil {
		return nil, nil
	}
	var in *rig.Installation
	if in, s.err = s.rig.Installation(s.ctx, name, documents); s.err != nil {
		return nil, nil
	}
	s.ends = append(s.ends, in.Stop)
	var gateways [2]*rig.Gateway
	for i, spec := range []rig.Spec{{Name: name + "-1"}, {Name: name + "-2", Upstream: upstream}} {
		if gateways[i], s.err = in.Gateway(s.ctx, spec); s.err != nil {
			return nil, nil
		}
		s.ends = append(s.ends, gateways[i].Stop)
	}
	return gateways[0], gateways[1]
}
