package envoytest

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
)

// setup returns an agent's first messages: a configuration of one pool and some tenants, shares, and sums.
func setup(revision int64, queue config.Queue, tenants ...config.Tenant) []link.Message {
	c := &config.Config{Revision: revision, Seed: 7, Pools: []config.Pool{{Name: "api", Capacity: 1e5, Queue: queue}}}
	shares := &exchange.Shares{Epoch: 1, Revision: revision, Pools: []exchange.PoolShare{{Pool: "api", IdleShare: 100}}}
	for _, t := range tenants {
		share := 1e4
		if len(t.Quotas) > 0 && !math.IsInf(t.Quotas[0].Max, 1) {
			share = t.Quotas[0].Max
		}
		c.Tenants = append(c.Tenants, t)
		shares.Flows = append(shares.Flows, exchange.Share{Tenant: t.Name, Pool: "api", Share: share})
	}
	return []link.Message{c, shares, &exchange.Sums{Full: true, Replicas: 1, TotalWeight: 1, Weight: 1}}
}

// limited is a tenant whose clients have a limit.
func limited(name string, rate, burst float64) config.Tenant {
	return config.Tenant{Name: name, Weight: 1, Limits: []config.Limit{{Name: "per-client", Rate: rate, Burst: burst}}}
}

// capped is a tenant whose share is small.
func capped(name string, share float64) config.Tenant {
	return config.Tenant{Name: name, Weight: 1, Quotas: []config.Quota{{Pool: "api", Max: share}}}
}

var patient = config.Queue{Law: config.DropTail, DelayTarget: 10 * time.Second, MaxWait: 30 * time.Second,
	MaxRequests: 1000}

// linked starts an Envoy with an agent and waits until the configuration is in
// force.
func linked(t *testing.T, state []link.Message, edits ...edit) (*envoy, *agent) {
	t.Helper()
	return launch{example: quickstart, concurrency: 2, edits: edits}.linked(t, state)
}

func (l launch) linked(t *testing.T, state []link.Message) (*envoy, *agent) {
	t.Helper()
	return l.linkedWith(t, nil, state)
}

func (l launch) linkedWith(t *testing.T, slots *slotOwner, state []link.Message) (*envoy, *agent) {
	t.Helper()
	e := l.spawn(t)
	e.serve()
	a := startAgentWith(t, e.socket, slots, state...)
	e.eventually("the configuration", func() bool { return e.metric("titrate_config_revision{}") > 0 })
	return e, a
}

func TestBootPolicy(t *testing.T) {
	t.Parallel()
	t.Run("open", func(t *testing.T) {
		t.Parallel()
		e := start(t)
		if a := e.get("/", "x-tenant", "acme"); a.status != 200 {
			t.Fatalf("before any configuration: %+v", a)
		}
		e.eventually("the metric", func() bool { return e.metric(outcome("-", "booted")) == 1 })
	})
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		e := start(t, edit{"boot_policy: OPEN", "boot_policy: CLOSED"})
		a := e.get("/", "x-tenant", "acme")
		if a.status != 503 || a.header.Get("x-titrate-reason") != "not_configured" {
			t.Fatalf("before any configuration: %+v", a)
		}
	})
}

func TestClientLimit(t *testing.T) {
	t.Parallel()
	e, agent := linked(t, setup(1, config.Queue{}, limited("acme", 0.5, 10)))
	admitted := 0
	var refused answer
	for range 30 {
		if a := e.get("/", "x-tenant", "acme", "x-client", "alice"); a.status == 200 {
			admitted++
		} else {
			refused = a
		}
	}
	if admitted < 10 || admitted > 12 {
		t.Errorf("%d of 30 requests admitted by a limit of 0.5/s with a burst of 10", admitted)
	}
	var body struct{ Error, Reason, Tenant string }
	if err := json.Unmarshal([]byte(refused.body), &body); err != nil || body.Error != "rate limited" ||
		body.Reason != "client_limit" || body.Tenant != "acme" {
		t.Errorf("the refusal's body: %q, %v", refused.body, err)
	}
	seconds, err := strconv.Atoi(refused.header.Get("retry-after"))
	if refused.status != 429 || err != nil || seconds < 1 || seconds > 60 ||
		refused.header.Get("content-type") != "application/json" ||
		refused.header.Get("x-titrate-reason") != "client_limit" {
		t.Errorf("the refusal: %+v", refused)
	}
	if a := e.get("/", "x-tenant", "acme", "x-client", "bob"); a.status != 200 {
		t.Errorf("another client: %+v", a)
	}
	e.eventually("the counters", func() bool {
		return e.metric(outcome("api", "admitted")) == float64(admitted+1) &&
			e.metric(outcome("api", "client_limit")) == float64(30-admitted)
	})
	e.eventually("the report", func() bool {
		r := agent.reported("acme")
		return r.Served == float64(admitted+1) && r.ClientRejected == float64(30-admitted)
	})
	e.alive()
}

func TestTenantNameIsEscaped(t *testing.T) {
	t.Parallel()
	e, _ := linked(t, setup(1, config.Queue{}), edit{"unknown_tenant: DEFAULT", "unknown_tenant: REJECT"})
	name := `a"b\<é` + strings.Repeat("x", 5000)
	a := e.get("/", "x-tenant", name)
	var body struct{ Reason, Tenant string }
	if err := json.Unmarshal([]byte(a.body), &body); err != nil || a.status != 403 || body.Reason != "unknown_tenant" {
		t.Fatalf("%+v, %v", a, err)
	}
	if !strings.HasPrefix(name, body.Tenant) || len(body.Tenant) < 100 {
		t.Fatalf("the tenant in the body is %q", body.Tenant)
	}
}

// many sends n requests at once and returns the answers as they come.
func many(ctx context.Context, e *envoy, n int, headers ...string) <-chan answer {
	answers := make(chan answer, n)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			a, err := e.do(ctx, http.MethodPost, "/", strings.NewReader(strings.Repeat("b", 1000)), headers...)
			if err == nil {
				answers <- a
			}
		})
	}
	go func() { wg.Wait(); close(answers) }()
	return answers
}

func TestHeldThenReleased(t *testing.T) {
	t.Parallel()
	e, _ := linked(t, setup(1, patient, capped("acme", 40)))
	waited := 0
	began := time.Now()
	for a := range many(t.Context(), e, 30, "x-tenant", "acme") {
		if a.status != 200 || a.body != "upstream 1000" {
			t.Errorf("a held request: %+v", a)
		}
		if ms, err := strconv.Atoi(a.header.Get("x-titrate-wait-ms")); err == nil && ms > 0 {
			waited++
			if time.Duration(ms)*time.Millisecond > time.Since(began) {
				t.Errorf("x-titrate-wait-ms is %d after %v", ms, time.Since(began))
			}
		}
	}
	if waited < 5 {
		t.Errorf("%d of 30 requests at a share of 40/s waited", waited)
	}
	e.eventually("the counters", func() bool {
		return e.metric(outcome("api", "admitted")) == 30 && e.metric("titrate_held{}") == 0 &&
			e.metric(`titrate_waited_total{pool="api"}`) >= float64(waited)
	})
	e.alive()
}

// Clients that wait for each answer get congestion marks; few requests are refused.
func TestMark(t *testing.T) {
	t.Parallel()
	e, _ := linked(t, setup(1, config.Queue{Law: config.VariableStructure, DelayTarget: 50 * time.Millisecond},
		capped("acme", 300)))
	marked := 0
	e.eventually("a mark", func() bool {
		for a := range many(t.Context(), e, 60, "x-tenant", "acme") {
			if mark := a.header.Get("x-titrate-congestion"); mark != "" {
				marked++
				if mark != "1" || a.status != 200 {
					t.Errorf("a marked answer: %+v", a)
				}
			}
		}
		return marked > 0
	})
	e.eventually("the counter", func() bool { return e.metric(`titrate_marked_total{pool="api"}`) == float64(marked) })
	e.alive()
}

// A request that waits for too long is refused by the ticker.
func TestHeldThenRefused(t *testing.T) {
	t.Parallel()
	queue := patient
	queue.MaxWait = 300 * time.Millisecond
	e, _ := linked(t, setup(1, queue, capped("acme", 1)))
	refused := 0
	for a := range many(t.Context(), e, 20, "x-tenant", "acme") {
		if a.status == 429 {
			refused++
			var body struct{ Reason, Tenant string }
			if err := json.Unmarshal([]byte(a.body), &body); err != nil || body.Tenant != "acme" || body.Reason == "" ||
				a.header.Get("retry-after") == "" {
				t.Errorf("a late refusal: %+v, %v", a, err)
			}
		}
	}
	if refused < 15 {
		t.Errorf("%d of 20 requests refused at a share of 1/s within 300 ms", refused)
	}
	e.alive()
}

func TestAbortWhileHeld(t *testing.T) {
	t.Parallel()
	e, _ := linked(t, setup(1, patient, capped("acme", 25), limited("other", 100, 100)))
	for round := range 3 {
		ctx, abort := context.WithCancel(t.Context())
		answers := many(ctx, e, 200, "x-tenant", "acme")
		e.eventually("held requests", func() bool { return e.metric("titrate_held{}") >= 150 })
		if a := e.get("/", "x-tenant", "other"); a.status != 200 {
			t.Fatalf("another tenant meanwhile: %+v", a)
		}
		abort()
		for range answers {
		}
		e.eventually("an empty queue", func() bool { return e.metric("titrate_held{}") == 0 })
		if n := e.metric(outcome("api", "cancelled")); n < float64(100*(round+1)) {
			t.Errorf("%v requests cancelled after %d rounds of 200", n, round+1)
		}
	}
	e.alive()
}

// Aborts race with releases: a share that lets requests go all the time while
// clients leave.
func TestAbortWhileReleased(t *testing.T) {
	t.Parallel()
	e, _ := linked(t, setup(1, patient, capped("acme", 400)))
	for range 10 {
		ctx, abort := context.WithTimeout(t.Context(), 60*time.Millisecond)
		for range many(ctx, e, 100, "x-tenant", "acme") {
		}
		abort()
	}
	e.eventually("an empty queue", func() bool { return e.metric("titrate_held{}") == 0 })
	e.alive()
}

func TestTermWhileHeld(t *testing.T) {
	t.Parallel()
	e, _ := linked(t, setup(1, patient, capped("acme", 25)))
	answers := many(t.Context(), e, 100, "x-tenant", "acme")
	e.eventually("held requests", func() bool { return e.metric("titrate_held{}") >= 60 })
	if err := e.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-e.exited:
	case <-time.After(10 * time.Second):
		t.Fatalf("Envoy hangs after SIGTERM:\n%s", e.log)
	}
	if e.err != nil {
		t.Fatalf("Envoy ended with %v:\n%s", e.err, e.log)
	}
	for range answers {
	}
}

func TestPerRouteOverride(t *testing.T) {
	t.Parallel()
	e, _ := linked(t, setup(1, config.Queue{}, limited("acme", 0.01, 25)))
	who := []string{"x-tenant", "acme", "x-client", "alice"}
	for range 2 {
		if a := e.get("/search", who...); a.status != 200 {
			t.Fatalf("a request of cost 10 with 25 left: %+v", a)
		}
	}
	if a := e.get("/search", who...); a.status != 429 {
		t.Fatalf("a request of cost 10 with 5 left: %+v", a)
	}
	for range 5 {
		if a := e.get("/", who...); a.status != 200 {
			t.Fatalf("a request of cost 1 with some left: %+v", a)
		}
	}
	if a := e.get("/", who...); a.status != 429 {
		t.Fatalf("a request of cost 1 with none left: %+v", a)
	}
	if a := e.get("/healthz", who...); a.status != 200 {
		t.Fatalf("a route that is not limited: %+v", a)
	}
}

// Sources: the route's name as tenant, a cost from a header, nonsense in it.
func TestSources(t *testing.T) {
	t.Parallel()
	e, _ := linked(t, setup(1, config.Queue{}, limited("gold", 0.01, 10)),
		edit{"- match: { prefix: / }", "- name: gold\n                match: { prefix: / }"},
		edit{"tenant: { header: x-tenant }", "tenant: [{ header: x-tenant }, { route: true }]"},
		edit{"cost: { literal: 1 }", "cost: [{ header: x-cost }, { literal: 2 }]"})
	for i, c := range []struct {
		cost   string
		status int
	}{{"4.5", 200}, {"nonsense", 200}, {"-3", 200}, {"9", 429}, {"1.5", 200}, {"0.1", 429}} {
		if a := e.get("/", "x-client", "alice", "x-cost", c.cost); a.status != c.status {
			t.Errorf("request %d of cost %q: %+v, want %d", i, c.cost, a, c.status)
		}
	}
}
