package limiter

import (
	"fmt"
	"testing"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
)

// newPartsFleet returns engines that have standing parts of each key until some time, or for longer if divide says so.
func newPartsFleet(t *testing.T, n int, until int64, l config.Limit) *exactFleet {
	f := newExactFleet(t, n, simple(1e6, config.Queue{}, l))
	f.roster = &grant.Roster{Least: n}
	for i, e := range f.engines {
		f.roster.Members = append(f.roster.Members, grant.Peer(i))
		for now := sec; now <= until; now += sec {
			divide(e, now, n)
		}
	}
	return f
}

// divide has an engine's agent say that it may divide by so many.
func divide(e *Engine, now int64, n int) {
	e.AnswerTokens(now, &exchange.TokenAnswers{Division: &exchange.Division{Gateways: uint32(n)}}, nil)
}

// Clients well within their limit ask no owner, wherever they go.
func TestPartsAskNobody(t *testing.T) {
	begin := 10 * sec // parts begin empty
	f := newPartsFleet(t, 3, begin, exactly("l", 10, 30))
	for i := range 3000 {
		now := begin + int64(i)*sec/100
		divide(f.engines[i%3], now, 3)
		r := Request{Tenant: "a", Client: fmt.Sprint("c", i%100), Pool: "api", Cost: 1}
		if n := f.total(i%3, now, r, 1); n != 1 {
			t.Fatalf("request %d is not admitted", i)
		}
	}
	if f.asked != 0 {
		t.Errorf("owners were asked %d times", f.asked)
	}
}

// The burst is there whole, at each gateway, and once: all parts come to the owner.
func TestPartsBurst(t *testing.T) {
	now := 100 * sec
	f := newPartsFleet(t, 3, now, exactly("l", 1, 30))
	r := Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
	if n := f.total(0, now, r, 2) + f.total(1, now, r, 3); n != 5 || f.asked != 0 {
		t.Fatalf("%d of 5 admitted, owners asked %d times", n, f.asked)
	}
	if n := f.total(2, now, r, 40); n != 25 {
		t.Errorf("%d admitted, want the 25 that are left", n)
	}
	if n := f.total(0, now, r, 3) + f.total(1, now, r, 3); n != 0 {
		t.Errorf("%d admitted of an empty bucket", n)
	}
	if n := f.total(0, now+4*sec+sec/100, r, 9); n != 4 {
		t.Errorf("%d admitted 4 s later, want 4", n)
	}
}

// Without an agent there are no parts. What would have been refilled meanwhile is spent, and what the ledgers let pass.
func TestPartsEndWithTheLink(t *testing.T) {
	now := 100 * sec
	f := newPartsFleet(t, 1, now, exactly("l", 1, 30))
	e := f.engines[0]
	r := Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
	if n := f.total(0, now, r, 23); n != 23 || f.asked != 0 {
		t.Fatalf("%d admitted, owners asked %d times", n, f.asked)
	}
	e.LinkTokens(now, false)
	other := r
	other.Client = "d"
	if n := f.total(0, now, other, 10); n == 0 {
		t.Fatal("the ledger lets nothing pass")
	}
	now += 3 * sec
	e.LinkTokens(now, true)
	divide(e, now, 1)
	r.Client = "at rest"
	if n := f.total(0, now, r, 20); n != 20 || f.asked != 0 {
		t.Errorf("%d admitted of a client at rest, owners asked %d times", n, f.asked)
	}
	r.Client = "c"
	if n := f.total(0, now, r, 24); n < 6 || n > 10 || f.asked == 0 {
		t.Errorf("%d admitted of 7 that are left, and up to 3 refilled; owners asked %d times", n, f.asked)
	}
	if n := f.total(0, now, other, 30); n > 26 {
		t.Errorf("%d admitted beside 10 by the ledger", n)
	}
}

// A limit that becomes EXACT by a change of the configuration begins with what its ledger has left.
func TestPartsOfAnExactLimitThatWasLocal(t *testing.T) {
	l := exactly("l", 1, 30)
	l.Precision = config.Local
	now := 100 * sec
	f := newPartsFleet(t, 2, now, l)
	r := Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
	if n := f.total(0, now, r, 20); n != 20 {
		t.Fatalf("%d admitted", n)
	}
	l.Precision = config.Exact
	for _, e := range f.engines {
		mustApply(t, e, simple(1e6, config.Queue{}, l))
		divide(e, now, 2)
	}
	if n := f.total(0, now, r, 30); n > 10 || n < 3 {
		t.Errorf("%d admitted of the 10 that are left", n)
	}
	f.asked = 0
	r.Client = "d"
	if n := f.total(0, now, r, 10); n != 10 || f.asked != 0 {
		t.Errorf("%d admitted of a client at rest, owners asked %d times", n, f.asked)
	}
}

// A key of a plan, with an override or after a reset has parts by its own numbers, and its burst once over all
// gateways. A key of which the reset is taken back goes on: its parts are spent.
func TestPartsOfPlansOverridesAndResets(t *testing.T) {
	l := exactly("l", 1, 30)
	l.Plans = map[string]config.RateBurst{"gold": {Rate: 1, Burst: 60}}
	l.Overrides = map[string]config.RateBurst{"vip": {Rate: 1, Burst: 90}}
	now := 100 * sec
	f := newPartsFleet(t, 3, now, l)
	c := simple(1e6, config.Queue{}, l)
	rows := []config.Override{{Key: ClientKey(c.Seed, "a", "l", "own"), Number: 2, Burst: 120}}
	c.Overrides = []config.OverrideTable{{OverridesOf: config.OverridesOf{Tenant: "a", Limit: "l"},
		Table: (*config.Overrides)(nil).With(rows, nil)}}
	apply := func(resets ...config.Reset) {
		next := *c
		next.Tenants = append([]config.Tenant(nil), c.Tenants...)
		next.Tenants[0].Resets = resets
		for _, e := range f.engines {
			e.Name(planNames())
			mustApply(t, e, &next)
		}
	}
	apply()
	for _, burst := range []struct {
		client, plan string
		reset, n     int
	}{{"a", "", 0, 30}, {"a", "gold", 0, 60}, {"a", "silver", 0, 0}, {"vip", "gold", 0, 90}, {"own", "", 0, 120},
		{"b", "", 0, 30}, {"b", "", 1, 30}, {"b", "", 1, 0}, {"b", "", 2, 30}, {"b", "", 0, 0}, {"b", "gold", 0, 60}} {
		if apply(); burst.reset > 0 {
			apply(config.Reset{Limit: "l", Client: burst.client, At: config.Instant(burst.reset)})
		}
		r := *ofPlan(burst.client, burst.plan)
		f.asked = 0
		got := 0
		for i := range 3 {
			got += f.total(i, now, r, burst.n/5)
		}
		if f.asked != 0 {
			t.Errorf("%+v: owners were asked for %d requests in which the parts are enough", burst, f.asked)
		}
		for i := range 3 {
			got += f.total(i, now, r, 60)
		}
		if got != burst.n {
			t.Errorf("%+v: %d admitted", burst, got)
		}
	}
}

// The numbers of a key change while it has parts: at each change it keeps what it has, or less, and never more than the
// new burst.
func TestPartsOfChangedNumbers(t *testing.T) {
	now := 100 * sec
	f := newPartsFleet(t, 3, now, exactly("l", 1, 60))
	r := Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
	spend := func() (n int) {
		for i := range 3 {
			n += f.total(i, now, r, 60)
		}
		return n
	}
	if n := f.total(0, now, r, 15) + f.total(1, now, r, 15); n != 30 || f.asked != 0 {
		t.Fatalf("%d of 30 admitted, owners asked %d times", n, f.asked)
	}
	for _, change := range []struct{ burst, least, most float64 }{{120, 60, 90}, {120, 0, 0}, {40, 0, 0}, {80, 0, 40}} {
		for _, e := range f.engines {
			mustApply(t, e, simple(1e6, config.Queue{}, exactly("l", 1, change.burst)))
		}
		for _, o := range f.owners {
			o.Configure(grant.Params{Rate: 1, Burst: int64(change.burst) * grant.Token, Hold: 50e6}, now)
		}
		if n := float64(spend()); n < change.least || n > change.most {
			t.Errorf("%+v: %g admitted", change, n)
		}
	}
}

// What another process has admitted is spent of the part, or else it is a debt of the whole bucket: the others' parts
// are called, though nobody waits.
func TestPartsAndWhatOthersReport(t *testing.T) {
	now := 100 * sec
	f := newPartsFleet(t, 3, now, exactly("l", 1, 30))
	r := Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
	account := func(n uint64) {
		f.engines[0].Account(now, &r, Usage{Admitted: n})
		f.settle(now)
	}
	if account(5); f.asked != 0 {
		t.Errorf("owners were asked %d times about 5 of a part of 8", f.asked)
	}
	account(15)
	now += sec / 100 // answers round up what is spent of a part
	if n := f.total(1, now, r, 7) + f.total(2, now, r, 7); n != 10 {
		t.Errorf("%d admitted, want the 10 that are left", n)
	}
}
