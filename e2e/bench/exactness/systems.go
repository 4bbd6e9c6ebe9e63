package exactness

import (
	"context"
	"fmt"
	"strings"

	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/lab/installation"
)

// ours is Titrate, with limits of one precision.
type ours struct {
	title, precision string

	rig    *rig.Rig
	in     *rig.Installation
	all    []string
	admins []string // URLs of the admin pages of the gateways that are there from the beginning
	port   int      // of the gateway that joins
	joins  int      // so far
	joined *rig.Gateway
	ends   []func() error
}

func startTitrate(title, precision string) starter {
	return func(ctx context.Context, r *rig.Rig) (system, func(), error) {
		s := &ours{title: title, precision: precision, rig: r}
		return s, s.stop, s.start(ctx, r)
	}
}

func (s *ours) stop() {
	for _, end := range s.ends {
		_ = end() // the rig kills processes that do not end
	}
}

func (s *ours) start(ctx context.Context, r *rig.Rig) (err error) {
	if s.in, err = r.Installation(ctx, "exactness", s.documents(1, false)); err != nil {
		return err
	}
	s.ends = append(s.ends, s.in.Stop)
	for i := range gateways {
		g, err := s.in.Join(ctx, rig.Spec{Name: fmt.Sprintf("exact-%d", i+1), Stamp: true})
		if err != nil {
			return err
		}
		s.ends = append(s.ends, g.Stop)
		s.all, s.admins = append(s.all, g.Address()), append(s.admins, g.AdminURL())
	}
	free, err := installation.Ports(1)
	if err != nil {
		return err
	}
	s.port, s.all = free[0], append(s.all, installation.Address(free[0]))
	return nil
}

// documents are a tenant per limit, and one whose limit is changed by a factor.
func (s *ours) documents(factor float64, changedOnly bool) string {
	var b strings.Builder
	write := func(tenant string, perMinute float64) {
		fmt.Fprintf(&b, "---\n{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/%s, spec: {weight: 1}}\n",
			tenant)
		fmt.Fprintf(&b, "---\n{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/%s/limits/each, spec: "+
			"{rate: %.0f/min, burst: %.0f, precision: %s}}\n",
			tenant, perMinute, max(perMinute/60, 1), s.precision)
	}
	if !changedOnly {
		b.WriteString("{apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/api, spec: {capacity: 10000000}}\n")
	}
	for _, l := range limits {
		if !changedOnly {
			write(fmt.Sprintf("r%d", l), 60*float64(l))
		}
		write(fmt.Sprintf("c%d", l), 60*float64(l)*factor)
	}
	return b.String()
}

func (s *ours) name() string      { return s.title }
func (s *ours) sustains() float64 { return 25_000 }
func (s *ours) targets() []string { return s.all }

func (s *ours) join(ctx context.Context) (err error) {
	s.joins++
	s.joined, err = s.in.Join(ctx, rig.Spec{Name: fmt.Sprintf("exact-joined-%d", s.joins), Stamp: true,
		Port: s.port})
	return err
}

func (s *ours) change(ctx context.Context, to float64) (bool, error) {
	return true, s.in.Apply(ctx, s.documents(to, true))
}

// leave undoes both.
func (s *ours) leave(ctx context.Context) error {
	if s.joined != nil {
		if err := s.joined.Stop(); err != nil {
			return err
		}
		s.joined = nil
	}
	return s.in.Apply(ctx, s.documents(1, true))
}

// theirs is a set of Envoys without notice of changes and joining gateways.
type theirs struct {
	title string
	rate  float64
	all   []string
}

func (s *theirs) name() string                                  { return s.title }
func (s *theirs) sustains() float64                             { return s.rate }
func (s *theirs) targets() []string                             { return s.all }
func (s *theirs) join(context.Context) error                    { return nil }
func (s *theirs) leave(context.Context) error                   { return nil }
func (s *theirs) change(context.Context, float64) (bool, error) { return false, nil }

// native are the limits as the native filters have them.
func native() (all []rig.Limit) {
	for _, l := range limits {
		all = append(all, rig.Limit{Tenant: fmt.Sprintf("r%d", l), Rate: l},
			rig.Limit{Tenant: fmt.Sprintf("c%d", l), Rate: l})
	}
	return all
}

func startLocal(ctx context.Context, r *rig.Rig) (system, func(), error) {
	s := &theirs{title: rig.LocalRateLimit, rate: 25_000}
	stop, err := s.start(ctx, r, rig.Spec{Name: "local-exact", Filter: rig.Dynamic, Limits: native()}, nil)
	return s, stop, err
}

// startService starts a rate limit service with Envoys that ask it.
func startService(name string) starter {
	return func(ctx context.Context, r *rig.Rig) (system, func(), error) {
		s := &theirs{title: name, rate: 2500}
		upstream, err := r.Envoy(ctx, rig.Spec{Name: "exactness upstream", Filter: rig.Plain})
		if err != nil {
			return s, func() {}, err
		}
		service, err := r.Service(ctx, name, native(), gateways+1)
		if err != nil {
			return s, func() { _ = upstream.Stop() }, err
		}
		spec := rig.Spec{Name: "remote-exact", Filter: rig.Remote, Upstream: upstream.Port}
		stop, err := s.start(ctx, r, spec, service)
		return s, func() {
			stop()
			_, _ = service.Stop(), upstream.Stop() // the rig kills processes that do not end
		}, err
	}
}

// start starts the three gateways and the fourth, which joins later; service is the service that they ask, if
// any.
func (s *theirs) start(ctx context.Context, r *rig.Rig, spec rig.Spec, service *rig.Service) (func(), error) {
	var all []*rig.Envoy
	stop := func() {
		for _, e := range all {
			_ = e.Stop()
		}
	}
	name := spec.Name
	for i := range gateways + 1 {
		spec.Name, spec.Stamp = fmt.Sprintf("%s-%d", name, i+1), true
		if service != nil {
			spec.RateLimit = service.Port(i)
		}
		e, err := r.Envoy(ctx, spec)
		if err != nil {
			return stop, err
		}
		all = append(all, e)
		s.all = append(s.all, e.Address())
	}
	return stop, nil
}
