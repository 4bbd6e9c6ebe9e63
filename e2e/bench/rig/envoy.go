package rig

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/titrate/titrate/lab/dev/child"
	"github.com/titrate/titrate/lab/dev/local"
)

// Spec is an Envoy to be started; Port 0 is any that is free, as are Admin and Host.
type Spec = local.Envoy

// The filters of an Envoy.
const (
	Plain   = local.Plain
	Local   = local.Local
	Dynamic = local.Dynamic
	Remote  = local.Remote
	Titrate = local.Titrate
)

// Limit is described at local.Limit.
type Limit = local.Limit

// Filter is described at local.Filter.
type Filter = local.Filter

// Envoy is a running one.
type Envoy struct {
	Spec
	*child.Process
}

// Envoy starts an Envoy with one worker and waits until it serves.
func (r *Rig) Envoy(ctx context.Context, s Spec) (*Envoy, error) {
	found, err := local.Ports(2)
	if err != nil {
		return nil, err
	}
	if s.Port == 0 {
		s.Port = found[0]
	}
	s.Admin, s.Host = found[1], r.o.Host
	server, err := r.Rig.Envoy(s)
	if err != nil {
		return nil, err
	}
	e := &Envoy{Spec: s}
	e.Process, err = r.Serve(ctx, server)
	return e, err
}

// Generation starts the n-th Envoy of a hot restart while its parent runs. The parent then ends; n is 1 and up,
// and Base is not 0. The parent stays e's Process.
func (r *Rig) Generation(ctx context.Context, e *Envoy, n int) (*child.Process, error) {
	s := e.Process.Spec
	s.Args = append(slices.Clone(s.Args[:len(s.Args)-len(e.Generation(n))]), e.Generation(n)...)
	return r.Start(ctx, s, e.ReadyURL())
}

// ReadyURL is a URL that answers 2xx once the Envoy serves.
func (e *Envoy) ReadyURL() string { return e.AdminURL() + "/ready" }

// stopGrace is the time that a process has to end after a signal.
const stopGrace = 15 * time.Second

// Stop ends the Envoy as an operator would.
func (e *Envoy) Stop() error { return child.Stop(stopGrace, e.Process) }

// Metric reads a counter or gauge of an Envoy. What stands before the name (Envoy
// may put a prefix there) does not matter.
func (r *Rig) Metric(ctx context.Context, e *Envoy, name string) (float64, error) {
	page, err := r.Get(ctx, e.AdminURL()+"/stats?filter="+name+"$")
	if err != nil {
		return 0, err
	}
	_, value, found := strings.Cut(page, name+": ")
	if !found {
		return 0, fmt.Errorf("%s has no metric %s: %q", e.Name, name, page)
	}
	return strconv.ParseFloat(strings.TrimSpace(value), 64)
}
