package cpu

import (
	"context"
	"fmt"

	"github.com/titrate/titrate/e2e/bench/rig"
)

// plenty is a limit per client that no load here reaches.
var plenty = []rig.Limit{{Tenant: "admit", Rate: 1_000_000}}

// stage collects the started processes. After an error its methods do nothing.
type stage struct {
	ctx  context.Context
	rig  *rig.Rig
	o    Options
	all  []variant
	ends []func() error
	err  error
}

// stop ends everything; the rig kills processes that do not end.
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
	v.processes = append(rig.CPU{v.envoy.Process()}, others...)
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
	r.Say("cpu: starting an Envoy per variant, etcd, coordinator, agents, rate limit services")
	upstream := s.envoy(rig.Spec{Name: "upstream", Filter: rig.Plain})
	if !o.Comparison {
		s.direct(upstream)
	}
	if s.err != nil {
		return s, s.err
	}
	for _, v := range []struct {
		name string
		spec rig.Spec
	}{
		{plain, rig.Spec{Name: "none-proxied", Filter: rig.Plain}},
		{oneBucket, rig.Spec{Name: "local-proxied", Filter: rig.Local}},
		{rig.LocalRateLimit, rig.Spec{Name: "dynamic-proxied", Filter: rig.Dynamic, Limits: plenty}},
	} {
		if v.name == plain || r.Wants(v.name) && !(v.name == oneBucket && o.Comparison) {
			v.spec.Upstream = upstream.Port
			s.add(variant{name: Proxied(v.name), base: Proxied(plain), envoy: s.envoy(v.spec)}, nil)
		}
	}
	for _, name := range r.Services() {
		s.service(name, upstream.Port)
	}
	if r.Wants(rig.TitrateModule) || r.Wants(rig.TitrateExact) {
		s.titrate(upstream.Port)
	}
	return s, s.err
}

// oneBucket is Envoy's filter with one bucket for all clients.
const oneBucket = rig.LocalRateLimit + ", one bucket"

// direct adds the variants of Envoy's own that answer by themselves.
func (s *stage) direct(upstream *rig.Envoy) {
	s.add(variant{name: plain, base: plain, envoy: s.envoy(rig.Spec{Name: "none", Filter: rig.Plain})}, nil)
	s.add(variant{name: oneBucket, base: plain, envoy: s.envoy(rig.Spec{Name: "local", Filter: rig.Local})}, nil)
	s.add(variant{name: rig.LocalRateLimit, base: plain,
		envoy: s.envoy(rig.Spec{Name: "dynamic", Filter: rig.Dynamic, Limits: plenty})}, nil)
	s.add(variant{name: paced, base: paced, envoy: upstream, pace: queuedShare}, nil)
}

// service adds a rate limit service with two gateways, so that its parts have another gateway to inform; the
// load goes through the first one.
func (s *stage) service(name string, upstream int) {
	if s.err != nil {
		return
	}
	var service *rig.Service
	if service, s.err = s.rig.Service(s.ctx, name, plenty, 2); s.err != nil {
		return
	}
	s.ends = append(s.ends, service.Stop)
	s.add(variant{name: Proxied(name), base: Proxied(plain), envoy: s.envoy(rig.Spec{
		Name: fmt.Sprintf("remote-%d", len(s.all)), Filter: rig.Remote, RateLimit: service.Port(0),
		Upstream: upstream})}, service.Processes(0))
}

// titrate adds our variants.
func (s *stage) titrate(upstream int) {
	direct, through := s.installation("admitting", upstream)
	if s.err != nil {
		return
	}
	proxied := func(name string, load rig.Closed) {
		s.add(variant{name: Proxied(name), base: Proxied(plain), envoy: through.Proxy, load: load},
			through.Processes()[1:])
	}
	if s.rig.Wants(rig.TitrateExact) {
		proxied(rig.TitrateExact, rig.Closed{Tenant: "exact"})
		if !s.o.Comparison {
			proxied(rig.TitrateExact+", 1000 clients", rig.Closed{Tenant: "exact", Keys: 1000})
		}
	}
	if !s.rig.Wants(rig.TitrateModule) {
		return
	}
	if !s.o.Comparison {
		s.add(variant{name: "titrate, admit", base: plain, envoy: direct.Proxy}, direct.Processes()[1:])
		s.limiting(upstream)
	}
	proxied(rig.TitrateModule, rig.Closed{})
}

// limiting adds the variants that refuse requests and that hold requests. A gateway announces clients to the
// other gateways while they are refused, which has a cost. So these clients have their own installation, and
// the other variants do not have this cost.
func (s *stage) limiting(upstream int) {
	direct, _ := s.installation("limiting", upstream)
	if s.err != nil {
		return
	}
	s.add(variant{name: "titrate, reject", base: plain, envoy: direct.Proxy, rejects: true,
		load: rig.Closed{Tenant: "reject", Keys: 1000}}, direct.Processes()[1:])
	s.add(variant{name: "titrate, queued", base: paced, envoy: direct.Proxy,
		load: rig.Closed{Tenant: "queued", Keys: 1000, Connections: 64}}, direct.Processes()[1:])
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
		if gateways[i], s.err = in.Join(s.ctx, spec); s.err != nil {
			return nil, nil
		}
		s.ends = append(s.ends, gateways[i].Stop)
	}
	return gateways[0], gateways[1]
}
