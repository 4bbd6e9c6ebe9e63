package envoytest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
)

// braked is an Envoy with a tenant acme whose requests wait for seconds behind a
// few others, until it is released.
type braked struct {
	*envoy
	agent   *agent
	arrived atomic.Int64 // at the upstream, but for the brake's
}

// The share that brakes, requests/s, and the brake's requests. The first ones pass
// at once; a queue of 10 s has room for what a test adds.
const slow, brakes = 1, 7

// brake starts an Envoy and sends requests of acme until some are held. The handler
// answers what arrives beside them.
func brake(t *testing.T, handler http.HandlerFunc, edits ...edit) *braked {
	t.Helper()
	b := &braked{}
	b.envoy, b.agent = linked(t, world(1, patient, capped("acme", slow)), edits...)
	b.upstream.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("x-brake") != "" {
			return
		}
		b.arrived.Add(1)
		handler(w, r)
	})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	for range brakes {
		go b.do(ctx, http.MethodGet, "/", nil, "x-tenant", "acme", "x-brake", "1")
	}
	b.eventually("the brake to hold", func() bool { return b.metric("titrate_held{}") >= brakes-3 })
	return b
}

// holds waits until n requests are held behind the brake's.
func (b *braked) holds(n int) {
	b.t.Helper()
	b.eventually(fmt.Sprintf("%d held requests", n), func() bool {
		return b.metric(begun) >= float64(brakes+n) && b.metric("titrate_held{}") >= float64(n)
	})
	if n := b.arrived.Load(); n != 0 {
		b.t.Fatalf("%d requests went on to the upstream before the brake's", n)
	}
}

// release lets everything go.
func (b *braked) release() {
	b.t.Helper()
	b.agent.say(world(2, patient, capped("acme", 1e4))...)
}

// settled fails the test unless nothing is left: no request held or in flight, no
// panic, and the upstream received as many requests as were sent and as were
// charged.
func (b *braked) settled(sent int64) {
	b.t.Helper()
	b.eventually("nothing left", func() bool {
		return b.metric("titrate_held{}") == 0 && b.metric(active) == 0
	})
	if n := b.arrived.Load(); n != sent {
		b.t.Errorf("%d requests arrived at the upstream, %d were sent", n, sent)
	}
	b.alive()
}

// Envoy's gauge of the streams that are open, and its counter of those that began.
const (
	active = `envoy_http_downstream_rq_active{envoy_http_conn_manager_prefix="ingress"}`
	begun  = `envoy_http_downstream_rq_total{envoy_http_conn_manager_prefix="ingress"}`
)

// echo answers with the body and its trailer.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Trailer", "x-after")
	w.Header().Set("x-path", r.URL.Path)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body)
	w.Header().Set("x-after", r.Trailer.Get("x-after"))
}
