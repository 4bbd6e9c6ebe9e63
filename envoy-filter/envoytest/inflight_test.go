package envoytest

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
)

// adaptive makes the pools of a configuration adaptive.
func adaptive(state []link.Message) []link.Message {
	for _, m := range state {
		if c, ok := m.(*config.Config); ok {
			for i := range c.Pools {
				c.Pools[i].Adaptive = true
			}
		}
	}
	return state
}

// inFlight sums the reports about upstreams, and has the cost in flight now.
func (a *agent) inFlight(tenant string) (sum exchange.FlowReport) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, r := range a.reports {
		for _, f := range r.Flows {
			if f.Tenant != tenant {
				continue
			}
			sum.Completed += f.Completed
			sum.Residence += f.Residence
			sum.Shed += f.Shed
			if i >= len(a.reports)-2 { // a flow without changes is left out
				sum.InFlight = f.InFlight
			}
		}
	}
	return sum
}

// mixedUpstream is an upstream that acts by the path. /wait delays the answer by 50 ms, /busy refuses, /broken
// fails, /drop closes the connection. /long never answers, /events never ends its answer, /tokens has cost 50.
func mixedUpstream(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/wait":
		time.Sleep(50 * time.Millisecond)
	case "/busy":
		w.WriteHeader(http.StatusServiceUnavailable)
	case "/broken":
		w.WriteHeader(http.StatusInternalServerError)
	case "/drop":
		panic(http.ErrAbortHandler)
	case "/events":
		w.Header().Set("content-type", "text/event-stream; charset=utf-8")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	case "/tokens":
		w.Header().Set("x-tokens", "50")
	case "/long":
		<-r.Context().Done()
		return
	}
	fmt.Fprintln(w, strings.Repeat("x", 100_000))
}

// Requests at the upstream are counted from release to the stream's end, each request once, however its stream
// ends.
func TestInFlightOfAnAdaptivePool(t *testing.T) {
	t.Parallel()
	e, a := linked(t, adaptive(setup(1, config.Queue{}, limited("acme", 1000, 1000), limited("tight", 0.01, 1))))
	e.upstream.Config.Handler = http.HandlerFunc(mixedUpstream)
	want := exchange.FlowReport{}
	settled := func(what string) {
		t.Helper()
		e.eventually(fmt.Sprintf("%s: completed %v, shed %v, in flight %v", what, want.Completed, want.Shed,
			want.InFlight),
			func() bool {
				got := a.inFlight("acme")
				return got.Completed == want.Completed && got.Shed == want.Shed && got.InFlight == want.InFlight
			})
	}
	ask := func(path string, status int) {
		t.Helper()
		if got := e.get(path, "x-tenant", "acme"); got.status != status {
			t.Fatalf("%s: %d, want %d", path, got.status, status)
		}
	}
	for range 5 {
		ask("/wait", 200)
	}
	want.Completed = 5
	settled("answers")
	if stay := a.inFlight("acme").Residence / 5; stay < .05 || stay > 1 {
		t.Errorf("answers of 50 ms stayed %v s on average", stay)
	}
	ask("/search", 200) // costs 10
	ask("/broken", 500) // an answer like another
	want.Completed += 11
	settled("costs and failures")
	ask("/busy", 503)
	ask("/drop", 503) // Envoy's own
	want.Shed = 2
	settled("turned away")

	watching, stop := context.WithCancel(t.Context())
	for range 3 { // they last, and are no work that waits
		go e.do(watching, http.MethodGet, "/events", nil, "x-tenant", "acme")
	}
	want.Completed += 3
	settled("event streams that go on")
	stop()
	settled("event streams that have ended")

	ctx, abort := context.WithCancel(t.Context())
	for range 3 {
		go e.do(ctx, http.MethodGet, "/long", nil, "x-tenant", "acme")
	}
	want.InFlight = 3
	settled("in flight")
	abort()
	want.InFlight = 0
	settled("aborted")
	for range 3 {
		e.get("/", "x-tenant", "tight")
	}
	e.eventually("the refused", func() bool { return a.inFlight("tight").Completed == 1 })
	if got := a.inFlight("tight"); got.Shed != 0 || got.InFlight != 0 {
		t.Errorf("refused requests count as %+v", got)
	}
	e.alive()
}

// Requests that waited are counted from their release on.
func TestInFlightOfHeldRequests(t *testing.T) {
	t.Parallel()
	e, a := linked(t, adaptive(setup(1, patient, capped("acme", 40))))
	for range many(t.Context(), e, 30, "x-tenant", "acme") {
	}
	e.eventually("30 completed", func() bool {
		got := a.inFlight("acme")
		return got.Completed == 30 && got.InFlight == 0 && got.Shed == 0
	})
	if r := a.inFlight("acme").Residence; r > 3 || math.IsNaN(r) {
		t.Errorf("30 requests stayed %v s together: their wait in the queue was counted", r)
	}
	e.alive()
}

// A request that Envoy redirects completes once, at the redirect's target, with its charged cost.
func TestInFlightOfARedirect(t *testing.T) {
	t.Parallel()
	e, a := linked(t, adaptive(setup(1, config.Queue{}, limited("acme", 1000, 1000))),
		withRoutePolicy("internal_redirect_policy: { max_internal_redirects: 1 }"))
	e.upstream.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.Header().Set("location", "http://"+r.Host+"/there")
			w.WriteHeader(http.StatusFound)
		}
	})
	for range 3 {
		if got := e.get("/", "x-tenant", "acme"); got.status != http.StatusOK {
			t.Fatalf("the redirected request: %d", got.status)
		}
	}
	e.get("/there", "x-tenant", "acme")
	e.eventually("3 redirected and another one completed", func() bool {
		got := a.inFlight("acme")
		return got.Completed == 4 && got.Shed == 0 && got.InFlight == 0
	})
	e.alive()
}

// If the response has the true cost, the request completes with the true cost.
func TestInFlightCompletesWithTheTrueCost(t *testing.T) {
	t.Parallel()
	e, a := linked(t, adaptive(setup(1, config.Queue{}, limited("acme", 1e6, 1e6))),
		edit{"cost: { literal: 1 }", "cost: { literal: 1 }\n                  response_cost: { header: x-tokens }"})
	e.upstream.Config.Handler = http.HandlerFunc(mixedUpstream)
	for range 4 {
		e.get("/tokens", "x-tenant", "acme")
	}
	e.get("/", "x-tenant", "acme")
	e.eventually("four answers of 50 and one of 1", func() bool {
		got := a.inFlight("acme")
		return got.Completed == 201 && got.InFlight == 0
	})
	e.alive()
}

// Flows of a fixed pool are not counted at all.
func TestFixedPoolsAreNotCounted(t *testing.T) {
	t.Parallel()
	e, a := linked(t, setup(1, config.Queue{}, limited("acme", 1000, 1000)))
	for range 5 {
		e.get("/", "x-tenant", "acme")
	}
	e.eventually("the report", func() bool { return a.reported("acme").Served == 5 })
	if got := a.inFlight("acme"); got.Completed != 0 || got.Residence != 0 {
		t.Errorf("a fixed pool reports %+v", got)
	}
}
