package limiter

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/config"
)

func TestAllowanceIsOfTheLimitThatLeavesLeast(t *testing.T) {
	e := New(Options{Keys: 1024})
	mustApply(t, e, simple(1e6, config.Queue{},
		config.Limit{Name: "wide", Rate: 100, Burst: 100}, config.Limit{Name: "narrow", Rate: 2, Burst: 10},
		config.Limit{Name: "watched", Rate: 1, Burst: 1, Mode: config.Shadow}))
	r := &Request{Tenant: "a", Client: "x", Pool: "api", Cost: 4}
	e.Decide(sec, r)
	want := Allowance{Limit: "narrow", Rate: 2, Burst: 10, Cost: 4, Remaining: 6, Reset: 2 * time.Second,
		Next: 500 * time.Millisecond}
	if got := e.Allowance(sec, r, None); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	e.Decide(sec, r)
	out := e.Decide(sec, r)
	out.RetryAfter = out.RetryAfter.Round(time.Microsecond)
	want = Allowance{Limit: "narrow", Rate: 2, Burst: 10, Cost: 4, Remaining: 2, Reset: 4 * time.Second,
		Next: 500 * time.Millisecond, Wait: time.Second}
	got := e.Allowance(sec, r, out.Reason)
	got.Wait = got.Wait.Round(time.Microsecond)
	if got != want || out.RetryAfter != want.Wait || out.Limit != "narrow" {
		t.Errorf("%+v after %+v, want %+v", got, out, want)
	}
	if got := e.Allowance(sec, &Request{Tenant: "nobody", Pool: "api"}, UnknownTenant); got != (Allowance{}) {
		t.Errorf("of an unknown tenant: %+v", got)
	}
}

func TestAllowanceOfTheShare(t *testing.T) {
	e := New(Options{Keys: 1024})
	mustApply(t, e, simple(5, config.Queue{Law: config.Police}, config.Limit{Name: "l", Rate: 100, Burst: 100}))
	r := &Request{Tenant: "a", Client: "x", Pool: "api", Cost: 1}
	var out Outcome
	for out = e.Decide(sec, r); out.Verdict == Admit; out = e.Decide(sec, r) {
	}
	a := e.Allowance(sec, r, out.Reason)
	if out.Reason != TenantShare || a.Limit != ShareName || a.Rate != 5 || a.Remaining != 0 || a.Wait <= 0 {
		t.Errorf("%+v after %+v", a, out)
	}
}

// Peek foretells Decide, and changes nothing.
func TestPeekForetellsDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		for range 60 {
			m.ask(t)
			if rapid.Bool().Draw(t, "tick") {
				m.tick(t)
			}
			client := rapid.SampledFrom([]string{"x", "y", "w"}).Draw(t, "client")
			r := &Request{Tenant: "a", Pool: "api", Client: client, Cost: 1}
			spent := m.spent()
			var before, after Stats
			m.e.Stats(m.now, &before)
			out, a := m.e.Peek(m.now, r)
			if again, b := m.e.Peek(m.now, r); again != out || a != b {
				t.Fatalf("two looks differ: %+v, %+v", out, again)
			}
			m.e.Stats(m.now, &after)
			if math.Abs(m.spent()-spent) > 1e-6 || len(before.Pools) > 0 && before.Pools[0] != after.Pools[0] {
				t.Fatal("a look changed something")
			}
			if a.Remaining < 0 || a.Wait < 0 || a.Reset < 0 {
				t.Fatalf("%+v", a)
			}
			if len(m.order[r.Client]) > 0 || m.e.member.Load().Replicas > 1 {
				continue // queued behind itself, or the ledger throws dice
			}
			if out.Verdict == Admit && out.Reason == None && a.Limit != "" && a.Remaining < 1-1e-6 {
				t.Fatalf("would pass, yet %+v", a)
			}
			got := m.e.Decide(m.now, r)
			if got.Verdict != out.Verdict && got.Verdict != Admit { // Police may catch up on credit
				t.Fatalf("foretold %+v, got %+v", out, got)
			}
			switch got.Verdict {
			case Admit:
				m.asked++
				m.admit(r.Client, r.cost())
			case Reject:
				m.asked++
				m.rejected++
			}
			m.check(t)
		}
	})
}

func TestSettleWithoutARoute(t *testing.T) {
	e := New(Options{Keys: 1024})
	r := &Request{Tenant: "a", Pool: "api", Cost: 1}
	if e.Settle(sec, r, Plain, 5) != 0 {
		t.Error("settled without a configuration")
	}
	if out, a := e.Peek(sec, r); out.Verdict != Admit || a != (Allowance{}) {
		t.Errorf("%+v, %+v", out, a)
	}
	mustApply(t, e, simple(10, config.Queue{}, config.Limit{Name: "none", Rate: 0, Burst: 1}))
	if out, a := e.Peek(sec, r); out.Verdict != Reject || a.Wait != 0 || a.Limit != "none" {
		t.Errorf("a limit of 0/s: %+v, %+v", out, a)
	}
	r.Pool = "elsewhere"
	if got := e.Settle(sec, r, Plain, 5); math.Abs(got-4) > 1e-9 {
		t.Errorf("forgiven %v of 4 by a limit that admits nothing", got)
	}
}

func BenchmarkAllowance(b *testing.B) {
	e, rs := benchEngine(b, 10_000, 1)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		e.Allowance(2*sec, &rs[i%len(rs)], None)
	}
}
