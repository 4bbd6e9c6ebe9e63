package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/titrate/titrate/lab/dev/load"
	"github.com/titrate/titrate/lab/installation"
)

// serve leaves the load to the user until ctx ends or the duration is over.
func (s *Session) serve(ctx context.Context, w *Installation) (Outcome, error) {
	fmt.Fprint(s.config.Out, s.manual(w))
	var over <-chan time.Time
	if s.config.Duration > 0 {
		timer := time.NewTimer(s.config.Duration)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
		return Passed, nil
	case <-ctx.Done():
	}
	if err := because(ctx, ctx.Err()); !errors.Is(err, ErrInterrupted) {
		return Failed, err
	}
	return Passed, nil
}

// manual returns instructions for the running installation.
func (s *Session) manual(w *Installation) string {
	var b strings.Builder
	lab := cmp.Or(s.config.Program, "titrate-lab")
	urls := w.URLs()
	b.WriteString("\nready. The gateways:\n")
	for _, g := range w.Gateways {
		fmt.Fprintf(&b, "  %s  %s   (Envoy's admin: %s)\n", g.Name, g.URL(), g.AdminURL())
	}
	fmt.Fprintf(&b, `
A request says who it is in two headers; tenants are acme, bolt, core and dart:
  curl -i -H '%[1]s: acme' -H '%[2]s: me' %[3]s
Load, on one gateway or on several at once; any other load tool will do, too:
  %[8]s load --gateways %[4]s --tenant acme=100 --tenant dart=400 --duration 30s

See and change the quotas while it runs (lab/dev/demo.yaml is what is applied now):
  export TITRATE_SERVER=%[5]s
  %[7]s get pools
  %[7]s why acme
  %[7]s top
  curl http://%[6]s/v1alpha1/pools          # the same without gRPC; /openapi.json says what there is

Ctrl-C stops everything and leaves nothing behind.
`, load.TenantHeader, load.ClientHeader, urls[0], strings.Join(urls, ","), w.API(),
		s.ports.REST(), installation.Beside(lab, "titrate"), lab)
	return b.String()
}
