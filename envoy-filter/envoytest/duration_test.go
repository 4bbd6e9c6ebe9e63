package envoytest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
)

// lasting makes the example charge the seconds at the upstream, with an estimate of 5 before any is learned.
var lasting = edit{"cost: { literal: 1 }", "response_cost: { duration: true, estimate: { first: 5 } }"}

// slowUpstream takes 200 ms for its headers and 100 ms more for its body; /moved redirects to /, /hang never
// answers.
func slowUpstream(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/hang":
		<-r.Context().Done()
		return
	case "/moved":
		w.Header().Set("location", "http://"+r.Host+"/")
		defer w.WriteHeader(http.StatusFound)
	default:
		defer func() {
			w.(http.Flusher).Flush()
			time.Sleep(100 * time.Millisecond)
			fmt.Fprint(w, "end")
		}()
	}
	time.Sleep(200 * time.Millisecond)
}

// spent returns what a tenant's requests without a client have spent of a limit's burst, as the page shows it. Their
// client is the quickstart's second source.
func (e *envoy) spent(tenant, limit string) float64 {
	e.t.Helper()
	_, body := e.tryAdmin("/titrate?format=json&pool=api&client=literal:anonymous&tenant=" + tenant)
	var page struct {
		Pools []struct {
			Limits []struct {
				Name        string
				Burst, Free float64
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &page); err != nil || len(page.Pools) != 1 {
		e.t.Fatalf("the page: %v, %s", err, body)
	}
	for _, l := range page.Pools[0].Limits {
		if l.Name == limit {
			return l.Burst - l.Free
		}
	}
	e.t.Fatalf("limit %s is not on the page: %s", limit, body)
	return 0
}

// A request costs the seconds from its release to the end of its stream, whichever way it ends. On a loaded machine
// it may take longer, but never less.
func TestDurationIsTheCost(t *testing.T) {
	t.Parallel()
	redirects := withRoutePolicy("internal_redirect_policy: { max_internal_redirects: 1 }")
	for what, c := range map[string]struct {
		path  string
		least float64
	}{"an answer": {"/", .3}, "a redirect": {"/moved", .5}, "an abort": {"/hang", .4}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if c.path == "/moved" {
				needRedirects(t)
			}
			e, _ := linked(t, setup(1, config.Queue{}, limited("acme", .001, 100)), lasting, redirects)
			e.upstream.Config.Handler = http.HandlerFunc(slowUpstream)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			if c.path == "/hang" {
				ctx, cancel = context.WithTimeout(t.Context(), 400*time.Millisecond)
			}
			defer cancel()
			began := time.Now()
			_, _ = e.do(ctx, http.MethodGet, c.path, nil, "x-tenant", "acme") // the abort is an error
			took := time.Since(began).Seconds()
			cost := 0.0
			e.eventually("the correction of the estimate of 5", func() bool {
				cost = e.spent("acme", "per-client")
				return cost < 4.9
			})
			if slack := .1; cost < c.least-slack || cost > took+slack {
				t.Errorf("it cost %v, want %v to %v", cost, c.least, took)
			}
			e.alive()
		})
	}
}

// Later requests are estimated by the mean of the earlier ones of their tenant. At first a limit lets one of two pass,
// and both once it is known that they last a third of a second.
func TestDurationIsEstimatedByItsMean(t *testing.T) {
	t.Parallel()
	e, _ := linked(t, setup(1, config.Queue{}, limited("acme", .001, 6), limited("bolt", .001, 6)), lasting)
	e.upstream.Config.Handler = http.HandlerFunc(slowUpstream)
	both := func(tenant string) (passed int) {
		for answer := range many(t.Context(), e, 2, "x-tenant", tenant) {
			if answer.status == http.StatusOK {
				passed++
			}
		}
		return passed
	}
	if n := both("acme"); n != 1 {
		t.Fatalf("%d of two passed that are taken for 5 s each, of a burst of 6 s; want 1", n)
	}
	e.eventually("the correction", func() bool { return e.spent("acme", "per-client") < 4.9 })
	if n := both("acme"); n != 2 {
		t.Errorf("%d of two passed that are known to be short, want 2", n)
	}
	if n := both("bolt"); n != 1 {
		t.Errorf("%d of two of another tenant passed, want 1", n)
	}
	e.alive()
}

// A request that waits is charged what it was estimated at when it came, and in the end the seconds after its
// release, not those of its wait.
func TestDurationOfHeldRequests(t *testing.T) {
	t.Parallel()
	queue := config.Queue{Law: config.DropTail, MaxWait: 10 * time.Second, MaxRequests: 10}
	e, _ := linked(t, setup(1, config.Queue{}, tenant("acme", config.Limit{Name: "queued", Rate: 5, Burst: 5, Queue: queue},
		config.Limit{Name: "sum", Rate: .001, Burst: 100})), lasting)
	e.upstream.Config.Handler = http.HandlerFunc(slowUpstream)
	for answer := range many(t.Context(), e, 3, "x-tenant", "acme") {
		if answer.status != http.StatusOK {
			t.Errorf("status %d, want 200", answer.status)
		}
	}
	e.eventually("the corrections", func() bool {
		cost := e.spent("acme", "sum")
		return cost > .8 && cost < 4
	})
	e.alive()
}
