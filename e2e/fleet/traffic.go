package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/e2e/robustness/load"
	"github.com/titrate/titrate/lab/judge"
)

// The limit of each client of the Envoys.
const (
	tenant = "web"
	rate   = 30 // requests/s
	burst  = 30 // requests
)

// clients of the Envoys: one wants three times its limit, one half of its limit.
var (
	above = load.Client{Tenant: tenant, Name: "above", Rate: 3 * rate}
	below = load.Client{Tenant: tenant, Name: "below", Rate: rate / 2}
)

// traffic are the requests through the Envoys.
type traffic struct {
	load     *load.Load
	upstream net.Listener
	cancel   context.CancelFunc
	clients  sync.WaitGroup
	envoys   int
	agents   int
}

// startTraffic starts an Envoy for each of the members, and the clients.
func (f *fleet) startTraffic(ctx context.Context, members []*member) error {
	if len(members) == 0 {
		return nil
	}
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var targets []load.Target
	t := &traffic{upstream: upstream, envoys: len(members), agents: len(f.members)}
	t.load = load.New(upstream, func() []load.Target { return targets })
	ctx, t.cancel = context.WithCancel(ctx)
	f.traffic = t
	for _, m := range members {
		if m.envoy, err = f.rig.Envoy(ctx, rig.Spec{Name: m.name, Filter: rig.Titrate, PoolHeader: true, Stamp: true,
			Upstream: upstream.Addr().(*net.TCPAddr).Port}); err != nil {
			return err
		}
		if err := f.enforces(ctx, m); err != nil {
			return err
		}
		targets = append(targets, load.Target{Name: m.name, Address: m.envoy.Address()})
	}
	for i, c := range []*load.Client{&above, &below} {
		t.clients.Go(func() { t.load.Run(ctx, c, rand.New(rand.NewPCG(uint64(i), 1))) })
	}
	return nil
}

// enforces waits until an Envoy's filter has the configuration.
func (f *fleet) enforces(ctx context.Context, m *member) error {
	ctx, cancel := context.WithTimeoutCause(ctx, f.o.within, fmt.Errorf("not within %v", f.o.within))
	defer cancel()
	return m.envoy.Process().Ready(ctx, func(ctx context.Context) error {
		revision, err := m.envoy.Metric(ctx, "titrate_config_revision")
		if err == nil && revision == 0 {
			err = fmt.Errorf("the filter of %s has no configuration", m.name)
		}
		return err
	})
}

// end stops the clients and waits for their last answers; then there is no upstream any more.
func (t *traffic) end() {
	if t == nil || t.cancel == nil {
		return
	}
	t.cancel()
	t.clients.Wait()
	t.load.Records()
	t.upstream.Close()
	t.cancel = nil
}

// Traffic are the figures of the requests through the Envoys.
type Traffic struct {
	Sent   int     `json:"sent"`
	Mean   float64 `json:"mean"`       // of the client above its limit: admitted, over rate·t + burst
	Excess float64 `json:"excess"`     // its worst over rate·t + burst in any window, requests
	Slack  float64 `json:"slack"`      // bound of Excess, docs/guarantees.md
	Lag    float64 `json:"lagSeconds"` // δ, which the slack was worked out with
	Below  int     `json:"wrongful"`   // 429s of the client below its limit
	Failed int     `json:"failed"`
	First  string  `json:"firstFailure,omitempty"`
}

// around is the time before and after a refusal in which the client must have kept within its limit, for the
// refusal to be wrong.
const around = 2 * time.Second

// judge ends the traffic and judges it; delay is the gossip's at the Envoys' agents, the most
// that was seen. A request counts when its Envoy received it.
func (t *traffic) judge(delay time.Duration) *Traffic {
	t.end()
	records := t.load.Sofar()
	slices.SortFunc(records, func(a, b load.Record) int { return cmp.Compare(a.Met, b.Met) })
	out := &Traffic{Sent: len(records)}
	var arrivals []time.Duration
	central := judge.Central{Bucket: judge.Bucket{Rate: rate, Burst: burst}}
	first, last := time.Duration(0), time.Duration(0)
	for i := range records {
		r := &records[i]
		switch {
		case r.Err != "":
			if out.Failed++; out.First == "" {
				out.First = r.Err
			}
		case r.Client == &below:
			central.Offer(i, r.Met, 1, r.Status == http.StatusTooManyRequests)
		default:
			first, last = cmp.Or(first, r.Met), r.Met
			if r.Status == http.StatusOK {
				arrivals = append(arrivals, max(r.Met, r.Arrived))
			}
		}
	}
	slices.Sort(arrivals)
	level := judge.Level{Rate: rate, Burst: burst}
	for _, t := range arrivals {
		out.Excess = max(out.Excess, level.Admit(t, 1))
	}
	out.Below = len(central.Wrongful(around))
	lag := judge.Lag(t.agents, delay, true)
	limit := judge.Limit{Rate: rate, Burst: burst}
	slack, cold := limit.Slack(t.envoys, lag)
	// The limit states no precision: it is EXACT while owners can be reached, else LOCAL. One more: Envoy
	// stamps a request some time before the filter decides.
	out.Slack, out.Lag = max(slack+cold, limit.ExactSlack(delay))+1, lag.Seconds()
	if last > first {
		out.Mean = float64(len(arrivals)) / (rate*(last-first).Seconds() + burst)
	}
	return out
}
