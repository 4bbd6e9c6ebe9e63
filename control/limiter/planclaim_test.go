package limiter

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
)

const planAt = 2

func planNames() (n Names) {
	n = testNames()
	n.Identities[planAt] = config.PlanIdentity
	return n
}

// ofPlan is a request of a client that names a plan.
func ofPlan(client, plan string) *Request {
	r := from(client, "", "", 0)
	r.Identities[planAt] = plan
	return r
}

// planned is a limit of 2 for requests without a plan, of 4 for gold, and of 3 for the client vip.
func planned(p config.Precision) config.Limit {
	return config.Limit{Name: "l", Rate: 1e-6, Burst: 2, Precision: p,
		Plans:     map[string]config.RateBurst{"gold": {Rate: 1e-6, Burst: 4}, "none": {}},
		Overrides: map[string]config.RateBurst{"vip": {Rate: 1e-6, Burst: 3}}}
}

// admittedOf counts the admitted ones of 20 requests.
func admittedOf(e *Engine, now int64, r *Request) (n int) {
	for range 20 {
		if e.Decide(now, r).Verdict == Admit {
			n++
		}
	}
	return n
}

// The name of a plan that the request says decides the numbers. A name that the limit does not have, or none, leaves
// the limit's own, and is counted. An override comes first. A plan of a client has a bucket of its own.
func TestPlansOfRequests(t *testing.T) {
	e := New(Options{Keys: 1024})
	e.Name(planNames())
	mustApply(t, e, simple(1e6, config.Queue{}, planned(config.Local)))
	for _, c := range []struct {
		client, plan string
		want         int
	}{
		{"a", "", 2}, {"a", "gold", 4}, {"a", "gold", 0}, {"a", "silver", 0}, {"a", "", 0}, {"b", "silver", 2},
		{"b", "none", 0}, {"vip", "gold", 3}, {"vip", "", 0}, {"c", "gold", 4},
	} {
		if got := admittedOf(e, sec, ofPlan(c.client, c.plan)); got != c.want {
			t.Errorf("client %s, plan %q: %d admitted, want %d", c.client, c.plan, got, c.want)
		}
	}
	if s := stats(e, sec); s.PlanMissing != 60 || s.PlanUnknown != 40 {
		t.Errorf("%d without a plan, %d of an unknown one", s.PlanMissing, s.PlanUnknown)
	}
	x := e.Explain(sec, ofPlan("d", "gold"))
	if l := x.Limits[0]; l.Plan != "gold" || l.Burst != 4 || l.Free != 4 {
		t.Errorf("explained as %+v", l)
	}
	if out := e.Decide(sec, ofPlan("c", "gold")); out.Verdict != Reject {
		t.Fatalf("%+v", out)
	} else if a, _ := e.RefusedAllowance(ofPlan("c", "gold"), out); a.Burst != 4 {
		t.Errorf("refused with %+v", a)
	}
	e.Name(testNames()) // no filter says plans any more
	if got := admittedOf(e, sec, ofPlan("e", "gold")); got != 2 {
		t.Errorf("%d admitted without the setting", got)
	}
}

func stats(e *Engine, now int64) (s Stats) {
	s.Keys = -1
	e.Stats(now, &s)
	return s
}

// A client whose tokens name two plans has at most what both allow, in whatever order it uses them: what it spends of
// one bucket does not fill the other.
func TestTokensOfTwoPlansGainNothing(t *testing.T) {
	e := New(Options{Keys: 1024})
	e.Name(planNames())
	l := config.Limit{Name: "l", Rate: 1, Burst: 10, Precision: config.Local,
		Plans: map[string]config.RateBurst{"gold": {Rate: 20, Burst: 100}}}
	mustApply(t, e, simple(1e6, config.Queue{}, l))
	random, now, admitted := rand.New(rand.NewPCG(1, 2)), sec, 0
	const ticks = 3000
	for range ticks {
		for _, plan := range [][]string{{"gold", "", "gold"}, {"", "gold"}, {"gold"}}[random.IntN(3)] {
			admitted += admittedOf(e, now, ofPlan("a", plan))
		}
		now += 10 * ms
	}
	most := 110 + 21*ticks/100
	if admitted > most || admitted < most*9/10 {
		t.Errorf("%d admitted, at most %d are allowed", admitted, most)
	}
}

// Requests over a queued limit wait by the numbers of their plan, and one plan's do not keep the other's waiting.
func TestPlansInAQueue(t *testing.T) {
	e := New(Options{Keys: 1024})
	e.Name(planNames())
	wait := config.Queue{Law: config.DropTail, MaxRequests: 10, MaxWait: 10 * time.Second, DelayTarget: 10 * time.Second}
	l := config.Limit{Name: "l", Rate: .01, Burst: 1, Queue: wait,
		Plans: map[string]config.RateBurst{"gold": {Rate: 10, Burst: 1}}}
	c := simple(1e6, wait, l)
	mustApply(t, e, c)
	e.SetShares(&exchange.Shares{Epoch: 1, Flows: []exchange.Share{{Tenant: "a", Pool: "api", Share: 1e6}}})
	for i, plan := range []string{"", "", "gold", "gold", "gold"} {
		e.Enqueue(sec, ofPlan("a", plan), uint64(i))
	}
	var released []uint64
	for now := sec; now < 2*sec; now += 5 * ms {
		for _, ev := range e.Tick(now, nil) {
			released = append(released, ev.Ticket)
		}
	}
	if fmt.Sprint(released) != "[3 4]" {
		t.Errorf("released %v", released)
	}
}

// The owner of an EXACT key takes the numbers of a plan from its own configuration, by the plan's name. Whatever name
// is said, a key has what some plan of the limit allows, or nothing.
func TestOwnersKnowPlansByName(t *testing.T) {
	c := simple(1e6, config.Queue{}, planned(config.Exact))
	var in config.Set
	in.Replace(c)
	for _, n := range []struct {
		client, plan string
		burst        int64
		ok           bool
	}{{"a", "", 2, true}, {"a", "gold", 4, true}, {"vip", "", 3, true}, {"vip", "gold", 0, false},
		{"a", "silver", 0, false}, {"a", "none", 1, false}} {
		name := exchange.KeyName{Tenant: "a", Limit: "l", Client: n.client, Plan: n.plan}
		if _, p, ok := ExactKey(&in, 0, &name); ok != n.ok || ok && p.Burst != n.burst*grant.Token {
			t.Errorf("%+v: %+v, %v", name, p, ok)
		}
	}
	f := newExactFleet(t, 2, c)
	for _, e := range f.engines {
		e.Name(planNames())
		mustApply(t, e, c)
	}
	for _, want := range []struct {
		plan string
		n    int
	}{{"gold", 4}, {"", 2}, {"gold", 0}} {
		got := 0
		for i := range 20 {
			e := f.engines[i%2]
			if out := e.Decide(2*sec, ofPlan("a", want.plan)); out.Verdict == Wait {
				e.Enqueue(2*sec, ofPlan("a", want.plan), uint64(1000+i))
				f.events = nil
				f.settle(2 * sec)
				for _, ev := range f.events {
					if ev.Outcome.Verdict == Admit {
						got++
					}
				}
			} else if out.Verdict == Admit {
				got++
			}
		}
		if got != want.n {
			t.Errorf("plan %q: %d admitted over two gateways, want %d", want.plan, got, want.n)
		}
	}
}

// A client that is reset has its whole burst at once, at each gateway and owner of the same configuration. Others go
// on. When the reset is taken back, the count from before goes on.
func TestReset(t *testing.T) {
	for _, perTenant := range []bool{false, true} {
		l := planned(config.Exact)
		l.PerTenant = perTenant
		if perTenant {
			l.Overrides = nil
		}
		c := simple(1e6, config.Queue{}, l)
		e := New(Options{Keys: 1024})
		e.Name(planNames())
		client := "a"
		if perTenant {
			client = ""
		}
		apply := func(resets ...config.Reset) {
			next := *c
			next.Revision += 1 + int64(len(resets))
			next.Tenants = append([]config.Tenant(nil), c.Tenants...)
			next.Tenants[0].Resets = resets
			mustApply(t, e, &next)
			var in config.Set
			in.Replace(&next)
			for _, plan := range []string{"", "gold"} {
				k := e.snap.Load().tenants["a"].limits[0].tokenKey(plan, client)
				n := exchange.KeyName{Tenant: "a", Limit: "l", Client: k.Client, Plan: plan}
				if key, _, ok := ExactKey(&in, 0, &n); !ok || key != k.Hash {
					t.Errorf("the owner's key of plan %q is %x, %v; the gateway's is %x", plan, key, ok, k.Hash)
				}
			}
		}
		apply()
		want := func(why string, plan string, n int) {
			t.Helper()
			if got := admittedOf(e, sec, ofPlan("a", plan)); got != n {
				t.Errorf("per tenant %v: %s: %d admitted, want %d", perTenant, why, got, n)
			}
		}
		want("at first", "", 2)
		want("at first", "gold", 4)
		apply(config.Reset{Limit: "l", Client: "b", At: 5}, config.Reset{Limit: "m", Client: client, At: 5})
		want("others are reset", "", 0)
		apply(config.Reset{Limit: "l", Client: client, At: 5})
		want("reset", "", 2)
		want("reset", "gold", 4)
		apply(config.Reset{Limit: "l", Client: client, At: 6})
		want("reset once more", "", 2)
		apply(config.Reset{Limit: "l", Client: client, At: 5})
		want("taken back", "", 0)
		apply()
		want("taken back", "", 0)
	}
}

// What is in flight cannot be counted anew: a reset of a concurrency limit changes no key.
func TestNoResetOfAConcurrency(t *testing.T) {
	l := config.Limit{Name: "l", Concurrency: 3}
	of := &config.Tenant{Name: "a", Resets: []config.Reset{{Limit: "l", Client: "c", At: 9}}}
	key := func(t *config.Tenant) uint64 {
		return newLimit(&snapshot{seed: 1, version: 1}, t, rules([]config.Limit{l})[0], &Names{}).keys.Key("c")
	}
	if key(of) != key(&config.Tenant{Name: "a"}) {
		t.Error("the key has changed")
	}
}
