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
		for now := int64(sec); now <= until; now += sec {
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
	f := newPartsFleet(t, 3, int64(begin), exactly("l", 10, 30))
	for i := range 3000 {
		now := int64(begin) + int64(i)*int64(sec)/100
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
	now += int64(3 * sec)
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
