package process

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/dev/load"
)

const inFlightLimit = `
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/flights, spec: {weight: 4}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/flights/limits/in-flight, spec: {concurrency: 10}}
`

// counting is an upstream that answers after a while, and counts the requests that it has at a time.
type counting struct {
	now, most, all atomic.Int64
}

func (c *counting) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	n := c.now.Add(1)
	defer c.now.Add(-1)
	c.all.Add(1)
	for m := c.most.Load(); n > m && !c.most.CompareAndSwap(m, n); m = c.most.Load() {
	}
	select {
	case <-time.After(time.Duration(10+rand.IntN(200)) * time.Millisecond):
	case <-r.Context().Done():
	}
}

// replaceUpstream serves in the place of the upstream until end is called.
func (w *system) replaceUpstream(t *testing.T, h http.Handler) (end func()) {
	t.Helper()
	at := w.Upstream.Args[slices.Index(w.Upstream.Args, "--listen")+1]
	w.Upstream.Kill()
	var l net.Listener
	var err error
	eventually(t, "the upstream's address is free", patience, func() string {
		if l, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", at); err != nil {
			return err.Error()
		}
		return ""
	})
	s := &http.Server{Handler: h, ReadHeaderTimeout: patience}
	go func() { _ = s.Serve(l) }()
	return func() {
		_ = s.Close()
		w.start(w.Upstream)
	}
}

// inFlightOverAllGateways sends the requests of one client, more than its limit lets be in flight, through all
// gateways.
// The upstream, which counts, never has more, also while a gateway is killed and another agent is; and all slots are
// free when all has ended. A killed process is seen by its agent a moment before the upstream has seen it.
func (w *system) inFlightOverAllGateways(t *testing.T) {
	const limit, workers = 10, 25
	w.apply(inFlightLimit)
	w.inForce(t, patience)
	up := &counting{}
	defer w.replaceUpstream(t, up)()
	for _, c := range []struct {
		what string
		do   func()
		more int64
	}{
		{"steady", func() {}, 0},
		{"an Envoy is killed", func() {
			w.Gateways[0].Proxy.Kill()
			w.start(w.Gateways[0].Proxy.Server)
			w.linked(t, patience, 0)
		}, 2},
		{"an agent is killed", func() {
			w.Gateways[1].Agent.Kill()
			w.start(w.Gateways[1].Agent)
			w.linked(t, patience, 0)
		}, 0},
	} {
		up.most.Store(0)
		before := up.all.Load()
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range workers {
			all.Go(func() { w.repeat(ctx, w.fronts[i%len(w.fronts)]) })
		}
		time.Sleep(2 * time.Second)
		c.do()
		time.Sleep(2 * time.Second)
		stop()
		all.Wait()
		most, served := up.most.Load(), up.all.Load()-before
		t.Logf("%s: at most %d in flight, %d served", c.what, most, served)
		if most > limit+c.more || served < 20 {
			t.Errorf("%s: the upstream had %d requests at a time, the limit is %d; it served %d", c.what, most, limit, served)
		}
		eventually(t, "all slots are free", patience, func() string {
			for _, g := range w.Gateways {
				if n := w.metric(g.AgentWeb+"/metrics", "titrate_agent_concurrency_slots", ""); n != 0 {
					return fmt.Sprintf("%s has %v slots out", g.Agent.Name, n)
				}
			}
			if n := w.total("titrate_concurrency_in_flight"); n != 0 {
				return fmt.Sprintf("%v in flight", n)
			}
			return ""
		})
	}
}

// repeat sends one request after the other, each to its end, until the context has ended.
func (w *system) repeat(ctx context.Context, front string) {
	client := &http.Client{Transport: &http.Transport{}, Timeout: patience}
	defer client.CloseIdleConnections()
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodGet, front, nil)
		if err != nil {
			return
		}
		req.Header.Set(load.TenantHeader, "flights")
		req.Header.Set(load.ClientHeader, "one")
		if resp, err := client.Do(req); err == nil {
			_ = resp.Body.Close()
		}
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
	}
}
