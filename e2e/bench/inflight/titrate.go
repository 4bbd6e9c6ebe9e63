package inflight

import (
	"context"
	"fmt"
	"strings"

	"github.com/titrate/titrate/e2e/bench/rig"
)

// ours is Titrate: three Envoys and agents.
type ours struct {
	in       *rig.Installation
	gateways []*rig.Gateway
}

func startTitrate(ctx context.Context, r *rig.Rig, u *upstream) (*ours, error) {
	in, err := r.Installation(ctx, "in-flight", documents())
	if err != nil {
		return nil, err
	}
	s := &ours{in: in}
	for i := range gateways {
		g, err := in.Join(ctx, rig.Spec{Name: fmt.Sprintf("in-flight-%d", i+1), Upstream: u.port})
		if err != nil {
			return s, err
		}
		s.gateways = append(s.gateways, g)
	}
	return s, nil
}

// documents have a tenant for each cell.
func documents() string {
	var b strings.Builder
	b.WriteString("{apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/api, spec: {capacity: 10000000}}\n")
	for i := range cells {
		c := &cells[i]
		fmt.Fprintf(&b, "---\n{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/%s, spec: {weight: 1}}\n"+
			"---\n{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/%[1]s/limits/in-flight, spec: "+
			"{concurrency: %d}}\n", c.name(), c.limit)
	}
	return b.String()
}

func (s *ours) name() string        { return slots }
func (s *ours) prepare(*cell) error { return nil }

func (s *ours) targets() (all []string) {
	for _, g := range s.gateways {
		all = append(all, g.Address())
	}
	return all
}

func (s *ours) crash(ctx context.Context, gateway int) error { return s.gateways[gateway].Restart(ctx) }

func (s *ours) stop() { _ = s.in.Stop() } // the rig kills processes that do not end
