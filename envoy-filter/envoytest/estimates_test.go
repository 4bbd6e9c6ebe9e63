package envoytest

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
)

// Answers teach the estimate of their tenant and route, except where the request has its own.
func TestUsageIsEstimatedByRecentAnswers(t *testing.T) {
	t.Parallel()
	e, _ := linked(t, setup(1, config.Queue{}, counting("acme", 30), counting("bolt", 30)), metered("OPENAI"))
	e.upstream.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(300 * time.Millisecond)
		fmt.Fprint(w, `{"usage":{"prompt_tokens":1,"completion_tokens":2}}`)
	})
	together := func(n int, headers ...string) (passed int) {
		for answer := range many(t.Context(), e, n, headers...) {
			if answer.status == http.StatusOK {
				passed++
			}
		}
		return passed
	}
	if n := together(3, "x-tenant", "acme", "x-client", "a"); n != 1 {
		t.Errorf("%d passed that are taken for 20 each, of 30; want 1", n)
	}
	if n := together(3, "x-tenant", "acme", "x-client", "b"); n != 3 {
		t.Errorf("%d passed that are known to be 2 each, want 3", n)
	}
	if n := together(3, "x-tenant", "acme", "x-client", "c", "x-max-tokens", "15"); n != 2 {
		t.Errorf("%d passed that say 15 each, want 2", n)
	}
	if n := together(3, "x-tenant", "bolt", "x-client", "a"); n != 1 {
		t.Errorf("%d of another tenant passed, want 1", n)
	}
	e.alive()
}

// One answer of more than a limit's burst does not refuse the requests after it for ever: they are estimated at the
// burst, and pass when the debt is repaid.
func TestOneDearAnswerRefusesNotForEver(t *testing.T) {
	t.Parallel()
	limits := tenant("acme", config.Limit{Name: "output", Rate: 600, Burst: 600, Cost: "output"})
	e, _ := linked(t, setup(1, config.Queue{}, limits), metered("OPENAI"))
	var asked atomic.Int32
	e.upstream.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens := 10
		if asked.Add(1) == 1 {
			tokens = 700
		}
		fmt.Fprintf(w, `{"usage":{"prompt_tokens":1,"completion_tokens":%d}}`, tokens)
	})
	for i := range 3 {
		e.eventually(fmt.Sprint("answer ", i), func() bool { return e.get("/", "x-tenant", "acme").status == http.StatusOK })
	}
	e.alive()
}

// A cost that counts failures is mostly 0. Each request counts 1 until its answer comes, however often it was 0: so
// many at once are held to the limit.
func TestCountOfFailuresIsNotLearned(t *testing.T) {
	t.Parallel()
	e, _ := linked(t, setup(1, config.Queue{}, limited("acme", .005, 10)),
		edit{"cost: { literal: 1 }", "response_cost: { header: x-failed }"})
	release := make(chan struct{})
	answer := sync.OnceFunc(func() { close(release) })
	defer time.AfterFunc(10*time.Second, answer).Stop()
	e.upstream.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			<-release
		}
		w.Header().Set("x-failed", "0")
	})
	for range 20 {
		if a := e.get("/", "x-tenant", "acme"); a.status != http.StatusOK {
			t.Fatalf("a request without a failure: %+v", a)
		}
	}
	answers, refused, passed := many(t.Context(), e, 25, "x-tenant", "acme"), 0, 0
	for a := range answers {
		if a.status == http.StatusOK {
			passed++
		} else if refused++; refused == 15 {
			answer()
		}
	}
	if passed != 10 {
		t.Errorf("%d at once passed a limit of 10, %d were refused", passed, refused)
	}
	e.alive()
}

// Routes without a name do not share estimates if they have other pools, or if their costs are others. An answer of 12
// leaves 18 of a burst of 30: a request that is known to cost 12 passes, and a request that is taken for 20 does not.
func TestRoutesWithoutANameHaveTheirOwnEstimates(t *testing.T) {
	t.Parallel()
	const estimate = "estimate: { first: 20 }"
	for what, override := range map[string]string{
		"pool":  "pool: { literal: search }",
		"field": "response_cost: { header: x-pages, " + estimate + " }",
		"unit":  "response_cost: { kilobytes: true, " + estimate + " }",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e, _ := linked(t, setup(1, config.Queue{}, limited("acme", .001, 30)),
				edit{"cost: { literal: 1 }", "response_cost: { header: x-tokens, " + estimate + " }"},
				edit{"value: { cost: { literal: 10 } }", "value: { " + override + " }"})
			e.upstream.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("x-tokens", "12")
			})
			for _, c := range []struct {
				path   string
				status int
			}{{"/", http.StatusOK}, {"/search", http.StatusTooManyRequests}, {"/", http.StatusOK}} {
				if a := e.get(c.path, "x-tenant", "acme"); a.status != c.status {
					t.Fatalf("%s: %+v, want status %d", c.path, a, c.status)
				}
			}
			e.alive()
		})
	}
}

// Tenants that a client invents count as one, so they share their estimates and displace none. An answer of 12 leaves
// 18 of a burst of 30: a request that is known to cost 12 passes, and a request that is taken for 20 does not.
func TestInventedTenantsShareTheirEstimates(t *testing.T) {
	t.Parallel()
	e, _ := linked(t, setup(1, config.Queue{}, limited(config.DefaultTenant, .001, 30)),
		edit{"cost: { literal: 1 }", "response_cost: { header: x-tokens, estimate: { first: 20 } }"})
	e.upstream.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-tokens", "12")
	})
	for _, tenant := range []string{"invented-1", "invented-2"} {
		if a := e.get("/", "x-tenant", tenant); a.status != http.StatusOK {
			t.Errorf("%s: %+v", tenant, a)
		}
	}
	e.alive()
}
