package limiter

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/config"
)

// Places of the tests' costs.
const inputAt, outputAt = 0, 3

func costNames() (n Names) {
	n.Costs[inputAt], n.Costs[outputAt] = "input", "output"
	return n
}

func pricedEngine(t rapid.TB, c *config.Config) *Engine {
	t.Helper()
	e := New(Options{Keys: 1024})
	e.Name(costNames())
	if err := e.Apply(c); err != nil {
		t.Fatal(err)
	}
	return e
}

// costing is a request with a plain cost and two by name.
func costing(plain, input, output float64) *Request {
	return &Request{Tenant: "a", Client: "x", Pool: "api", Cost: plain, Costs: &Costs{inputAt: input, outputAt: output}}
}

// remaining returns the rest of each limit's burst.
func remaining(e *Engine, now int64) map[string]float64 {
	left := map[string]float64{}
	for _, l := range e.Explain(now, costing(1, 1, 1)).Limits {
		left[l.Name] = math.Round(l.Free*1e6) / 1e6
	}
	return left
}

func slow(name, cost string, burst float64) config.Limit {
	return config.Limit{Name: name, Rate: 1e-6, Burst: burst, Cost: cost}
}

// Each limit counts the cost that it names. It does not count a request without that cost.
func TestLimitsCountTheirCosts(t *testing.T) {
	for what, tc := range map[string]struct {
		r    *Request
		want string // requests, input, output, unknown: what each has spent
	}{
		"all three":        {costing(1, 20, 300), "1 20 300 0"},
		"no output":        {costing(1, 20, 0), "1 20 0 0"},
		"not a number":     {costing(1, math.NaN(), 3), "1 0 3 0"},
		"less than none":   {costing(1, -4, 3), "1 0 3 0"},
		"no costs by name": {&Request{Tenant: "a", Client: "x", Pool: "api", Cost: 2}, "2 0 0 0"},
	} {
		e := pricedEngine(t, simple(1e9, config.Queue{}, slow("requests", "", 1000), slow("input", "input", 1000),
			slow("output", "output", 1000), slow("unknown", "bytes", 1000)))
		if out := e.Decide(sec, tc.r); out.Verdict != Admit {
			t.Errorf("%s: %+v", what, out)
		}
		got := ""
		for _, name := range []string{"requests", "input", "output"} {
			got += fmt.Sprint(1000-remaining(e, sec)[name], " ")
		}
		if got += "0"; got != tc.want {
			t.Errorf("%s: spent %s, want %s", what, got, tc.want)
		}
		if _, shown := remaining(e, sec)["unknown"]; shown {
			t.Errorf("%s: a limit that names a cost which no request has is shown as one that applies", what)
		}
	}
}

// A request that one limit refuses is charged to none, whichever cost the limits count.
func TestRefusedByOneCostChargesNothing(t *testing.T) {
	e := pricedEngine(t, simple(1e9, config.Queue{}, slow("a-requests", "", 10), slow("b-output", "output", 100),
		slow("c-input", "input", 10)))
	if out := e.Decide(sec, costing(1, 11, 50)); out.Verdict != Reject || out.Limit != "c-input" {
		t.Fatalf("%+v, want a refusal by c-input", out)
	}
	if got := remaining(e, sec); got["a-requests"] != 10 || got["b-output"] != 100 || got["c-input"] != 10 {
		t.Errorf("left %v, want the whole bursts", got)
	}
}

// A correction of one cost changes the limits that count it, and the pool if it does.
func TestSettleOneOfSeveralCosts(t *testing.T) {
	c := simple(1e9, config.Queue{}, slow("requests", "", 1000), slow("input", "input", 1000),
		slow("output", "output", 1000))
	c.Pools[0].Cost = "output"
	e := pricedEngine(t, c)
	r := costing(1, 20, 100)
	e.Decide(sec, r)
	if micros, place := e.PoolCost(r); micros != 100e6 || place != outputAt {
		t.Errorf("the pool counts %v millionths of the cost at %d", micros, place)
	}
	e.Settle(sec, r, outputAt, 340)
	e.Settle(sec, r, inputAt, 5)
	e.Settle(sec, r, 5, 77)   // a cost that it has not
	e.Settle(sec, r, 200, 77) // no place
	if got := remaining(e, sec); got["requests"] != 999 || got["input"] != 995 || got["output"] != 660 {
		t.Errorf("left %v, want 999, 995 and 660", got)
	}
	if got := servedBy(e, 2*sec); math.Abs(got-340) > 1e-6 {
		t.Errorf("%v reported as served, want 340", got)
	}
}

// servedBy returns the cost that the flows have served, as they report it.
func servedBy(e *Engine, now int64) (sum float64) {
	e.Tick(now, nil)
	for _, f := range e.live() {
		f.mu.Lock()
		f.advance(e, now)
		sum += units(f.report.sum.served)
		f.mu.Unlock()
	}
	return sum
}

// A pool counts the cost that it names, and the plain cost of a request without that.
func TestPoolCountsItsCost(t *testing.T) {
	c := simple(1e9, config.Queue{})
	c.Pools[0].Cost = "output"
	e := pricedEngine(t, c)
	for i, r := range []*Request{costing(1, 5, 300), costing(2, 5, 0), {Tenant: "a", Client: "x", Pool: "api", Cost: 4}} {
		if out := e.Decide(sec, r); out.Verdict != Admit {
			t.Errorf("request %d: %+v", i, out)
		}
	}
	if got := servedBy(e, 2*sec); math.Abs(got-306) > 1e-6 {
		t.Errorf("%v served, want 300 + 2 + 4", got)
	}
	e.Name(Names{})
	e.Decide(2*sec, costing(1, 5, 300))
	if got := servedBy(e, 3*sec); math.Abs(got-307) > 1e-6 {
		t.Errorf("%v served after the name has lost its place, want one more", got)
	}
}

// A limit or a pool that counts a cost by name decides as if that cost were the plain one. The requests wait, are
// cancelled, and have their costs corrected.
func TestNamedCostsAreLikePlainOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := config.Limit{Name: "l", Rate: rapid.Float64Range(1, 100).Draw(t, "rate"),
			Burst: rapid.Float64Range(1, 50).Draw(t, "burst"), Queue: config.Queue{Law: config.Police}}
		if rapid.Bool().Draw(t, "queue") {
			limit.Queue = config.Queue{Law: config.DropTail, MaxRequests: 5, MaxWait: 3 * time.Second}
		}
		plainly := simple(rapid.Float64Range(5, 1e4).Draw(t, "capacity"), config.Queue{}, limit)
		limit.Cost = "output"
		byName := simple(plainly.Pools[0].Capacity, config.Queue{}, limit)
		byName.Pools[0].Cost = "output"
		pair := [2]*Engine{pricedEngine(t, plainly), pricedEngine(t, byName)}
		both := func(what string, do func(e *Engine) string) {
			if plain, named := do(pair[0]), do(pair[1]); plain != named {
				t.Fatalf("%s: %s, by name %s", what, plain, named)
			}
		}
		of := func(e *Engine, cost float64) *Request {
			if e == pair[0] {
				return costing(cost, 3, 0)
			}
			return costing(7, 3, cost)
		}
		now, ticket := sec, uint64(0)
		handles := [2][]Handle{}
		for range 60 {
			now += int64(rapid.IntRange(0, 300).Draw(t, "ms")) * 1e6
			cost := float64(rapid.IntRange(1, 20).Draw(t, "cost"))
			switch rapid.IntRange(0, 4).Draw(t, "act") {
			case 0, 1:
				ticket++
				both("a request", func(e *Engine) string {
					out, h := e.Enqueue(now, of(e, cost), ticket)
					if h != 0 {
						handles[at(pair, e)] = append(handles[at(pair, e)], h)
					}
					return fmt.Sprintf("%+v %v", out, h)
				})
			case 2:
				both("a correction", func(e *Engine) string {
					if e == pair[0] {
						return fmt.Sprint(e.Settle(now, of(e, 5), Plain, cost))
					}
					return fmt.Sprint(e.Settle(now, of(e, 5), outputAt, cost))
				})
			case 3:
				both("a tick", func(e *Engine) string { return fmt.Sprintf("%+v", e.Tick(now, nil)) })
			case 4:
				both("a cancel", func(e *Engine) string {
					i := at(pair, e)
					if len(handles[i]) == 0 {
						return ""
					}
					h := handles[i][0]
					handles[i] = handles[i][1:]
					return fmt.Sprint(e.Cancel(now, h))
				})
			}
			both("what is left", func(e *Engine) string {
				out, a := e.Peek(now, of(e, 2))
				return fmt.Sprintf("%+v %+v", out, a)
			})
		}
	})
}

func at(pair [2]*Engine, e *Engine) int {
	if e == pair[0] {
		return 0
	}
	return 1
}

// Only limits that can refuse a request by a cost make its least burst. A cost of that much passes, and a greater one
// never does.
func TestLeastBurst(t *testing.T) {
	watched, elsewhere, never := slow("watched", "output", 5), slow("elsewhere", "output", 5), slow("never", "input", 1)
	watched.Mode, elsewhere.Pools, never.Rate = config.Shadow, []string{"other"}, 0
	own := slow("own", "output", 600.0000007)
	own.Overrides = map[string]config.RateBurst{"x": {Rate: 1e-6, Burst: 400.0000007}}
	e := pricedEngine(t, simple(1e9, config.Queue{}, own, slow("wide", "output", 900), watched, elsewhere, never))
	r := costing(1, 20, 300)
	for place, want := range map[int]float64{Plain: math.Inf(1), inputAt: 1, outputAt: 400, 5: math.Inf(1)} {
		if got := e.LeastBurst(r, place); got != want {
			t.Errorf("the least burst for the cost at %d is %v, want %v", place, got, want)
		}
	}
	r.Costs[inputAt] = 0
	r.Costs[outputAt] = 401
	if out := e.Decide(sec, r); out.Verdict != Reject || out.RetryAfter != 0 {
		t.Errorf("above the least burst: %+v", out)
	}
	r.Costs[outputAt] = 400
	if out := e.Decide(sec, r); out.Verdict != Admit {
		t.Errorf("the least burst: %+v", out)
	}
	if got := e.LeastBurst(&Request{Tenant: "nobody", Cost: 1}, Plain); !math.IsInf(got, 1) {
		t.Errorf("the least burst of an unknown tenant is %v", got)
	}
}

// A request counts for a configured tenant and a configured pool, whatever names it has.
func TestCountedAs(t *testing.T) {
	c := simple(1e9, config.Queue{})
	c.Tenants = append(c.Tenants, config.Tenant{Name: config.DefaultTenant, Weight: 1})
	e := pricedEngine(t, c)
	for _, tc := range []struct{ tenant, pool, want string }{
		{"a", "api", "a api"}, {"a", "invented", "a "}, {"invented", "api", "- api"}, {"invented", "invented", "- "},
	} {
		tenant, pool, ok := e.CountedAs(&Request{Tenant: tc.tenant, Pool: tc.pool})
		if got := tenant + " " + pool; got != tc.want || !ok {
			t.Errorf("%s %s counts as %s, %v, want %s", tc.tenant, tc.pool, got, ok, tc.want)
		}
	}
	for what, e := range map[string]*Engine{"without a configuration": New(Options{}),
		"without a default tenant": pricedEngine(t, simple(1, config.Queue{}))} {
		if tenant, pool, ok := e.CountedAs(&Request{Tenant: "invented", Pool: "api"}); ok {
			t.Errorf("%s: %s %s", what, tenant, pool)
		}
	}
}
