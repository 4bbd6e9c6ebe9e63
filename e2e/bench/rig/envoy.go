package rig

import (
	"context"

	"github.com/titrate/titrate/lab/installation"
)

// Spec is an Envoy to be started.
type Spec = installation.Envoy

// The filters of an Envoy.
const (
	Plain   = installation.Plain
	Local   = installation.Local
	Dynamic = installation.Dynamic
	Remote  = installation.Remote
	Titrate = installation.Titrate
)

// Limit is described at installation.Limit.
type Limit = installation.Limit

// Filter is described at installation.Filter.
type Filter = installation.Filter

// Envoy is the server of an Envoy; Gateway has an agent besides, Installation what they share.
type (
	Envoy        = installation.Proxy
	Gateway      = installation.Gateway
	Installation = installation.Installation
)

// Envoy starts an Envoy with one worker and waits until it serves.
func (r *Rig) Envoy(ctx context.Context, s Spec) (*Envoy, error) {
	e, err := r.Rig.Envoy(s)
	if err != nil {
		return nil, err
	}
	return e, e.Start(ctx)
}

// Installation starts etcd and a coordinator, and applies the documents.
func (r *Rig) Installation(ctx context.Context, name, documents string) (*Installation, error) {
	in, err := r.New(installation.Options{Name: name, Documents: documents})
	if err != nil {
		return nil, err
	}
	return in, in.Start(ctx)
}

// Upstream starts an HTTP server that is never the bottleneck, and returns its port.
func (r *Rig) Upstream(ctx context.Context) (int, error) {
	p, err := installation.Ports(1)
	if err != nil {
		return 0, err
	}
	return p[0], r.Rig.Upstream(installation.Address(p[0]), "--capacity", "100000", "--service-time", "1ms",
		"--queue", "10000").Start(ctx)
}
