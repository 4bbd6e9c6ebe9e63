package envoytest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
)

// backlog is an Envoy with a tenant acme whose share is so small that requests wait for
// seconds behind a few others, the fillers, until the backlog is released.
type backlog struct {
	*envoy
	agent   *agent
	arrived atomic.Int64 // at the upstream, without the fillers
}

// The share, requests/s, and the number of fillers. The first fillers pass at once; a queue of 10 s has room
// for the test's own requests.
const slow, fillers = 1, 7

// startBacklog starts an Envoy and sends fillers until some are held. The handler answers
// other requests.
func startBacklog(t *testing.T, handler http.HandlerFunc, edits ...edit) *backlog {
	t.Helper()
	b := &backlog{}
	b.envoy, b.agent = linked(t, setup(1, patient, capped("acme", slow)), edits...)
	b.upstream.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("x-filler") != "" {
			return
		}
		b.arrived.Add(1)
		handler(w, r)
	})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	for range fillers {
		go b.do(ctx, http.MethodGet, "/", nil, "x-tenant", "acme", "x-filler", "1")
	}
	b.eventually("held fillers", func() bool { return b.metric("titrate_held{}") >= fillers-3 })
	return b
}

// waitHeld waits until n requests are held behind the fillers.
func (b *backlog) waitHeld(n int) {
	b.t.Helper()
	b.eventually(fmt.Sprintf("%d held requests", n), func() bool {
		return b.metric(begun) >= float64(fillers+n) && b.metric("titrate_held{}") >= float64(n)
	})
	if n := b.arrived.Load(); n != 0 {
		b.t.Fatalf("%d requests reached the upstream before the fillers", n)
	}
}

// release raises the share, so that all requests are released.
func (b *backlog) release() {
	b.t.Helper()
	b.agent.send(setup(2, patient, capped("acme", 1e4))...)
}

// checkDrained fails the test unless nothing is left: no request held or in flight, no
// panic, and the upstream received as many requests as were sent and charged.
func (b *backlog) checkDrained(sent int64) {
	b.t.Helper()
	b.eventually("nothing left", func() bool {
		return b.metric("titrate_held{}") == 0 && b.metric(active) == 0
	})
	if n := b.arrived.Load(); n != sent {
		b.t.Errorf("%d requests arrived at the upstream, %d were sent", n, sent)
	}
	b.alive()
}

// Envoy's gauge of open streams, and its counter of all streams.
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
