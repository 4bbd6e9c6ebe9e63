package workload

import (
	"slices"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

const (
	period = 50 * time.Millisecond
	lag    = 150 * time.Millisecond
)

// relay sends each gateway the others' claims so far, as agents without delay do.
func relay(f *Fleet, now time.Duration, claims []map[uint64]exchange.KeyClaim, full bool) {
	for i, g := range f.Gateways {
		s := &exchange.Sums{Full: full, Replicas: len(f.Gateways), Lag: lag}
		for _, k := range g.keys {
			sum := exchange.KeySum{Key: k.id, Epoch: 1, Admitted: 1000}
			for j := range f.Gateways {
				if c, ok := claims[j][k.id]; ok && j != i {
					sum.Claims += c.Claim
					sum.Admitted += c.Admitted
				}
			}
			s.Keys = append(s.Keys, sum)
		}
		for n := range g.flows {
			sum := exchange.FlowSum{Key: g.flows[n].Key}
			for j, other := range f.Gateways {
				if j != i && other.Presence() == Present {
					sum.Claims += other.flows[n].Claim
				}
			}
			s.Flows = append(s.Flows, sum)
		}
		g.Receive(now, s)
	}
}

// play lets gateways make requests for so many periods. drop selects the claims that are lost.
func play(f *Fleet, periods int, drop func(n int) bool) (worst float64) {
	claims := make([]map[uint64]exchange.KeyClaim, len(f.Gateways))
	for i, g := range f.Gateways {
		claims[i] = map[uint64]exchange.KeyClaim{}
		g.Set(Present)
		g.Connected(0)
	}
	n := 0
	for p := range periods {
		now := time.Duration(p+1) * period
		for i, g := range f.Gateways {
			g.Work(now)
			c := g.Claims(now)
			if c == nil {
				continue
			}
			for _, k := range c.Keys {
				if n++; p == 0 || !drop(n) {
					claims[i][k.Key] = k
				}
			}
		}
		relay(f, now, claims, p%7 == 0)
		worst = max(worst, f.Audit(now, lag).Off)
	}
	return worst
}

func plan(t *testing.T, p Plan) *Fleet {
	t.Helper()
	f, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestKeysHaveTheirUsers(t *testing.T) {
	for _, c := range []struct{ gateways, users, want int }{{9, 3, 3}, {9, 0, 9}, {9, 20, 9}, {2, 1, 1}} {
		f := plan(t, Plan{Gateways: c.gateways, Keys: 200, Users: c.users, Rate: 1})
		total := 0
		for _, g := range f.Gateways {
			total += g.Keys()
		}
		if total != 200*c.want {
			t.Errorf("%+v: %d uses of 200 keys", c, total)
		}
		for k := range f.users {
			names := f.UsersOf(k)
			slices.Sort(names)
			if len(slices.Compact(names)) != c.want {
				t.Fatalf("%+v: key %d has the users %v", c, k, names)
			}
		}
	}
	if _, err := New(Plan{Gateways: 0, Rate: 1}); err == nil {
		t.Error("no gateway is accepted")
	}
}

// Gateways make as many requests as they claim.
func TestRequestsAreMadeAtTheRate(t *testing.T) {
	f := plan(t, Plan{Gateways: 5, Keys: 50, Users: 3, Rate: 2})
	play(f, 600, func(int) bool { return false })
	sum := 0.0
	for _, g := range f.Gateways {
		for _, k := range g.keys {
			sum += k.admitted
		}
	}
	if sum < 2*50*30*.99 || sum > 2*50*30*1.01 {
		t.Errorf("%v requests in 30 s for 50 keys at 2/s", sum)
	}
}

// Agents that lose nothing are right; a count that stays away is found.
func TestAudit(t *testing.T) {
	p := Plan{Gateways: 5, Keys: 50, Users: 3, Rate: 2, Flows: 2}
	if worst := play(plan(t, p), 200, func(int) bool { return false }); worst != 0 {
		t.Errorf("%v off, though nothing is lost", worst)
	}
	lost := 0
	worst := play(plan(t, p), 200, func(int) bool { lost++; return lost > 500 })
	if worst < 2 {
		t.Errorf("%v off, though all claims are lost in the second half", worst)
	}
}

// The others do not learn of the requests of a gateway without a link. The counts are right: they are as late
// as the gateway was. A look proves less in this time.
func TestAuditOfALateGateway(t *testing.T) {
	f := plan(t, Plan{Gateways: 3, Keys: 30, Users: 0, Rate: 2})
	sent := make([]map[uint64]exchange.KeyClaim, 3)
	for i, g := range f.Gateways {
		sent[i] = map[uint64]exchange.KeyClaim{}
		g.Set(Present)
		g.Connected(0)
	}
	const from, to, end = 100, 160, 260 // periods without a link
	var longest time.Duration
	for p := range end {
		now := time.Duration(p+1) * period
		for i, g := range f.Gateways {
			g.Work(now)
			if i == 0 && p >= from && p < to {
				continue
			}
			if i == 0 && p == to {
				g.Connected(now)
			}
			if c := g.Claims(now); c != nil {
				for _, k := range c.Keys {
					sent[i][k.Key] = k
				}
			}
		}
		relay(f, now, sent, false)
		c := f.Audit(now, lag)
		if c.Off > 0 {
			t.Fatalf("at %v a count is wrong by %v: %s", now, c.Off, c.Where)
		}
		longest = max(longest, c.Lag)
		if p == end-1 && (c.Seen < 1 || c.Late > 2*period) {
			t.Errorf("at the end %+v, though no gateway is late", c)
		}
	}
	if without := (to - from) * period; longest < without || longest > without+time.Second {
		t.Errorf("δ is up to %v, though a gateway had no link for %v", longest, without)
	}
	if got := sent[0][f.Gateways[0].keys[0].id].Admitted; got < 8 || got > 9 {
		t.Errorf("%v requests in 13 s at 2/3 per second", got)
	}
}

// A count that stands still is not noticed while δ is as long as it was looked at.
func TestAuditKnowsWhatItSees(t *testing.T) {
	for _, c := range []struct {
		lag  time.Duration
		seen bool
	}{{lag, true}, {10 * time.Second, false}} {
		f := plan(t, Plan{Gateways: 3, Keys: 30, Users: 0, Rate: 2})
		var last Counts
		claims := make([]map[uint64]exchange.KeyClaim, 3)
		for i, g := range f.Gateways {
			claims[i] = map[uint64]exchange.KeyClaim{}
			g.Set(Present)
			g.Connected(0)
		}
		for p := range 100 {
			now := time.Duration(p+1) * period
			for _, g := range f.Gateways {
				g.Work(now)
				g.Claims(now)
			}
			relay(f, now, claims, false)
			last = f.Audit(now, c.lag)
		}
		if (last.Seen == 1) != c.seen || (last.Off > 0) != c.seen {
			t.Errorf("with δ = %v: %+v", c.lag, last)
		}
	}
}

func TestPace(t *testing.T) {
	var p pace
	p.happened(period)
	p.happened(2 * period)
	if late := p.late(3 * period); late != 0 {
		t.Errorf("%v late, though on time", late)
	}
	if late := p.late(6 * period); late != 3*period {
		t.Errorf("%v late, want 3 periods", late)
	}
	p.happened(12 * period)
	if late := p.late(13 * period); late != 9*period {
		t.Errorf("%v late after 10 periods, want 9", late)
	}
	for n := 13; n < 100; n++ {
		p.happened(time.Duration(n) * period)
	}
	if late := p.late(100 * period); late != 0 {
		t.Errorf("%v late, long after the gap", late)
	}
}

// A sum that lacks a present gateway, or has a gateway that is gone, is found; so is a sum that a Full state
// does not name.
func TestWrong(t *testing.T) {
	f := plan(t, Plan{Gateways: 4, Keys: 20, Users: 0, Rate: 1, Flows: 2})
	last := 0
	f.Gateways[0].Set(Present)
	if f.Wrong(&last) == "" {
		t.Error("nothing was received, and nothing is wrong")
	}
	play(f, 3, func(int) bool { return false })
	if what := f.Wrong(&last); what != "" {
		t.Error(what)
	}
	f.Gateways[2].Set(Away)
	if f.Wrong(&last) == "" {
		t.Error("a gateway that is gone is still counted, and nothing is wrong")
	}
	f.Gateways[2].Set(Present)
	g := f.Gateways[1]
	g.Receive(time.Second, &exchange.Sums{Full: true, More: true})
	if what := f.Wrong(&last); what != "" {
		t.Errorf("the rest of a Full state is to come: %s", what)
	}
	g.Receive(time.Second, &exchange.Sums{})
	if f.Wrong(&last) == "" || last != 1 {
		t.Errorf("a Full state without the keys, and nothing is wrong at gateway 1 (%d)", last)
	}
}

func TestWithdrawalNamesEverything(t *testing.T) {
	g := plan(t, Plan{Gateways: 3, Keys: 20, Users: 2, Rate: 1, Flows: 2}).Gateways[1]
	c := g.Withdrawal()
	if len(c.Withdrawn) != g.Keys() || len(c.Flows) != 2 || c.Flows[0].Claim != 0 || c.Flows[0].Active != 0 {
		t.Errorf("%d of %d keys, flows %+v", len(c.Withdrawn), g.Keys(), c.Flows)
	}
}

// On a new link a gateway sends everything once, then the changes.
func TestClaimsAreSentOnce(t *testing.T) {
	g := plan(t, Plan{Gateways: 3, Keys: 40, Users: 2, Rate: .1, Flows: 1}).Gateways[0]
	for range 2 {
		g.Connected(0)
		if c := g.Claims(time.Millisecond); c == nil || len(c.Keys) != g.Keys() || len(c.Flows) != 1 {
			t.Fatalf("the first claims: %+v", c)
		}
		if c := g.Claims(2 * time.Millisecond); c != nil {
			t.Errorf("claims without a change: %+v", c)
		}
	}
}
