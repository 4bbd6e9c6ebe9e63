package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/titrate/titrate/services/agent/core"
	"github.com/titrate/titrate/services/intake"
	"github.com/titrate/titrate/services/rls"
	"github.com/titrate/titrate/services/telemetry"
	"go.opentelemetry.io/otel/attribute"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
)

// RLS is the service of Envoy's rate limit API, next to the filters' link.
type RLS struct {
	// Address is host:port of the gRPC server; "": there is none.
	Address string
	// Options are the operator's; the agent fills in the rest.
	rls.Options
}

// suffixRLS makes the name of the service's gateway of the agent's.
const suffixRLS = "-rls"

// openRLS makes the service and opens its port, if it is configured.
func (a *Agent) openRLS(ctx context.Context) error {
	o := a.c.RLS.Options
	if a.c.RLS.Address == "" {
		return nil
	}
	credentials, err := a.c.Security.ClientCredentials()
	if err != nil {
		return err
	}
	o.XDS.Dial = []grpc.DialOption{grpc.WithTransportCredentials(credentials)}
	if o.Credentials, err = a.c.Security.ServerCredentials(); err != nil {
		return err
	}
	o.Socket, o.Name, o.Log, o.Alone = a.c.Socket, a.c.Name+suffixRLS, a.log, len(a.c.Coordinators) == 0
	o.Seed = seedOf(a.gossipKeys)
	if a.rls, err = rls.New(o); err != nil {
		return err
	}
	a.core.SetOwnLimits(a.rls)
	a.rlsAt, err = a.c.Security.Listen(ctx, "--rls (gRPC)", a.c.RLS.Address)
	return err
}

// serveAPIs serves Envoy's APIs until ctx ends, or serving, which is what the services need; without a service it waits
// for that. Then the services' last words have been taken in.
func (a *Agent) serveAPIs(ctx, serving context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(serving, cancel)()
	group, ctx := errgroup.WithContext(ctx)
	var linked []string
	if a.rls != nil {
		linked = append(linked, a.c.Name+suffixRLS)
		group.Go(func() error { return a.rls.Serve(ctx, a.rlsAt) })
	}
	if a.rlqs != nil {
		linked = append(linked, a.c.Name+suffixRLQS)
		group.Go(func() error { return a.rlqs.Serve(ctx, a.rlqsAt) })
	}
	if len(linked) == 0 {
		<-ctx.Done()
	}
	err := group.Wait()
	hasLink := func(_ time.Duration, c *core.Core) bool { return slices.ContainsFunc(linked, c.HasLink) }
	for end := time.Now().Add(lastWords); serving.Err() == nil && ask(a, hasLink) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return err
}

// lastWords bounds the time for the last messages of the services.
const lastWords = 500 * time.Millisecond

// check refuses limits that would not be served, or that two sources have, and what is no kind of window.
func (r RLS) check() error {
	if err := r.Windows.Validate(); err != nil {
		return err
	}
	switch {
	case r.Address == "" && r.Dir != "":
		return errors.New("--rls-config is given and --rls is not: give --rls host:port to serve these limits")
	case r.Address == "" && r.XDS.Address != "":
		return errors.New("--rls-xds is given and --rls is not: give --rls host:port to serve these limits")
	case r.Address == "" && r.Windows == rls.Fixed:
		return errors.New("--rls-windows fixed is given and --rls is not: give --rls host:port to serve limits")
	case r.Dir != "" && r.XDS.Address != "":
		return errors.New("--rls-config and --rls-xds are given: give the flag of the source that has the limits")
	}
	return nil
}

// seedOf is a seed that all agents with one first gossip key have, and that nobody can guess
// who does not know the key; 0 without a key.
func seedOf(keys [][]byte) uint64 {
	if len(keys) == 0 {
		return 0
	}
	sum := sha256.Sum256(append([]byte("titrate rls seed\x00"), keys[0]...))
	return binary.LittleEndian.Uint64(sum[:])
}

// RLSAddress returns the address of the rate limit service, "" without one.
func (a *Agent) RLSAddress() string {
	if a.rlsAt == nil {
		return ""
	}
	return a.rlsAt.Addr().String()
}

// standsAlone reports that no coordinator's configuration is expected: the service serves the limits of its files.
func (a *Agent) standsAlone() bool { return a.rls != nil && len(a.c.Coordinators) == 0 }

// limitsInForce is an alarm: what is in the directory, or what the xDS server has, is not
// what is in force, or there is no stream to the server.
func (a *Agent) limitsInForce() error {
	now := a.rls.Stats()
	source, version := "--rls-config", ""
	if now.XDS != nil {
		source, version = "--rls-xds "+a.c.RLS.XDS.Address, now.XDS.Version
	}
	switch {
	case now.FilesTrouble != "":
		return fmt.Errorf("%s: the limits before stay in force: %s", source, now.FilesTrouble)
	case now.XDS == nil && a.c.RLS.Dir != "" && now.Limits == 0:
		return fmt.Errorf("%s: the files of %s have no limit", source, a.c.RLS.Dir)
	case now.XDS == nil || now.XDS.Connected:
		return nil
	}
	why := cmp.Or(now.XDS.Why, "it has sent nothing; is --rls-xds-node the node that it knows?")
	if version == "" {
		return fmt.Errorf("%s: not connected yet, so there are no limits: %s", source, why)
	}
	return fmt.Errorf("%s: not connected; the limits of its version %s stay in force: %s", source, version, why)
}

// ofRLS reads a number of the service, if there is one.
func ofRLS(read func(rls.Stats) float64) func(measurements, telemetry.Put) {
	return func(m measurements, put telemetry.Put) {
		if m.rls != nil {
			put(read(*m.rls))
		}
	}
}

// ofXDS reads a number of the stream to the xDS server, if there is one.
func ofXDS(read func(rls.XDSStats) float64) func(measurements, telemetry.Put) {
	return func(m measurements, put telemetry.Put) {
		if m.rls != nil && m.rls.XDS != nil {
			put(read(*m.rls.XDS))
		}
	}
}

// rlsInstruments are the metrics of the rate limit service.
var rlsInstruments = []telemetry.Instrument[measurements]{
	{Name: "titrate.rls.requests", Counter: true,
		Help: "Requests to the rate limit service that were answered without an error.",
		Read: ofRLS(func(s rls.Stats) float64 { return float64(s.Requests) })},
	{Name: "titrate.rls.duration", Counter: true, Unit: "s",
		Help: "Time that those requests took together in the agent.",
		Read: ofRLS(func(s rls.Stats) float64 { return s.Seconds })},
	{Name: "titrate.rls.hits", Counter: true, Labels: []string{"limit", "outcome"},
		Help: "Hits by limit and outcome: within, near (admitted beyond 80 % of the limit), over, and over a limit " +
			"with shadow_mode or quota_mode.",
		Read: func(m measurements, put telemetry.Put) {
			if m.rls == nil {
				return
			}
			for _, h := range m.rls.Hits {
				for i, n := range h.By {
					if n > 0 {
						put(float64(n), attribute.String("limit", h.Limit),
							attribute.String("outcome", rls.OutcomeNames[i]))
					}
				}
			}
		}},
	{Name: "titrate.rls.hits.unnamed", Counter: true,
		Help: "Decisions counted under the limit \"other\", because there are too many names.",
		Read: ofRLS(func(s rls.Stats) float64 { return float64(s.MetricsRefused) })},
	{Name: "titrate.rls.invalid", Counter: true,
		Help: "Requests that were answered with an error: no domain, no descriptors or more than 1024, an unknown " +
			"unit.",
		Read: ofRLS(func(s rls.Stats) float64 { return float64(s.Invalid) })},
	{Name: "titrate.rls.abandoned", Counter: true,
		Help: "Requests whose callers had gone, or whose deadline passed, before all descriptors were decided.",
		Read: ofRLS(func(s rls.Stats) float64 { return float64(s.Abandoned) })},
	{Name: "titrate.rls.unknown.domain", Counter: true, Help: "Requests to a domain that no file has: answered OK.",
		Read: ofRLS(func(s rls.Stats) float64 { return float64(s.UnknownDomain) })},
	{Name: "titrate.rls.undecided", Counter: true,
		Help: "Descriptors answered OK because the engine could not decide them.",
		Read: ofRLS(func(s rls.Stats) float64 { return float64(s.Undecided) })},
	{Name: "titrate.rls.overrides.refused", Counter: true,
		Help: "Descriptors answered OK because too many different limits came with descriptors.",
		Read: ofRLS(func(s rls.Stats) float64 { return float64(s.OverridesRefused) })},
	{Name: "titrate.rls.hits.capped", Counter: true,
		Help: "Descriptors with more than a million hits, admitted or refused: they are decided and charged as " +
			"a million.",
		Read: ofRLS(func(s rls.Stats) float64 { return float64(s.Capped) })},
	{Name: "titrate.rls.shadowed", Counter: true, Help: "Requests over a limit that --rls-shadow let pass.",
		Read: ofRLS(func(s rls.Stats) float64 { return float64(s.Shadowed) })},
	{Name: "titrate.rls.limits", Help: "Limits of the files, or of the xDS server, in force.",
		Read: ofRLS(func(s rls.Stats) float64 { return float64(s.Limits) })},
	{Name: "titrate.rls.files.refused", Counter: true,
		Help: "Changes of the files, or of the xDS server's limits, that were refused; those before stayed in force.",
		Read: ofRLS(func(s rls.Stats) float64 { return float64(s.FilesRefused) })},
	{Name: "titrate.rls.files.trouble",
		Help: "1 while the files in the directory, or the limits that the xDS server has sent, are not those in force.",
		Read: ofRLS(func(s rls.Stats) float64 { return telemetry.Truth(s.FilesTrouble != "") })},
	{Name: "titrate.rls.xds.connected",
		Help: "Only with --rls-xds: 1 while there is a stream to the xDS server; without it the last limits stay.",
		Read: ofXDS(func(s rls.XDSStats) float64 { return telemetry.Truth(s.Connected) })},
	{Name: "titrate.rls.xds.lost", Counter: true, Help: "Only with --rls-xds: streams to the xDS server that ended.",
		Read: ofXDS(func(s rls.XDSStats) float64 { return float64(s.Lost) })},
	{Name: "titrate.rls.counters",
		Help: "Only with --rls-windows fixed: counters of windows that have not ended, and those of other agents.",
		Read: ofRLS(func(s rls.Stats) float64 { return float64(s.Counters) })},
	{Name: "titrate.rls.counters.shared", Counter: true,
		Help: "Only with --rls-windows fixed: descriptors counted by a counter that clients share, for want of room.",
		Read: ofRLS(func(s rls.Stats) float64 { return float64(s.CountersShared) })},
	{Name: "titrate.rls.names.unused",
		Help: "Identities and classes of limits that the service has no place for: their limits count all as one " +
			"client, or no request.",
		Read: ofRLS(func(s rls.Stats) float64 { return float64(s.NamesUnused) })},
	{Name: "titrate.rls.refunds", Counter: true,
		Help: "Descriptors with is_negative_hits: they charge nothing and give nothing back.",
		Read: ofRLS(func(s rls.Stats) float64 { return float64(s.Refunds) })},
	{Name: "titrate.rls.messages.refused", Counter: true, Labels: []string{"reason"},
		Help: "Requests to the rate limit service that were refused before a decision, by reason. It is length, " +
			"entries, compressed, malformed, late (more than a minute), busy (no room beside others), " +
			"unknown_method. Envoy lets them pass without failure_mode_deny.",
		Read: func(m measurements, put telemetry.Put) {
			if m.rls == nil {
				return
			}
			for reason, n := range m.rls.Refused {
				put(float64(n), attribute.String("reason", intake.Reasons[reason]))
			}
		}},
	{Name: "titrate.rls.panics", Counter: true,
		Help: "Panics recovered in the service's engine and in its handlers of requests: bugs.",
		Read: ofRLS(func(s rls.Stats) float64 { return float64(s.Panics) })},
}
