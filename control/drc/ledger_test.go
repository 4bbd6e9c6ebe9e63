package drc

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func TestS1(t *testing.T) {
	l := NewLedger(LedgerParams{Rate: 1, Burst: 1, Replicas: 1}, 0)
	tat := int64(0)
	for i, want := range []bool{true, false, true, false, true} {
		var ok bool
		tat, ok = Take(tat, int64(i)*5e8, 1, 1, 1)
		if got := l.Take(float64(i)/2, 1, 0.5); got != want || ok != want {
			t.Errorf("arrival %d: ledger %v, GCRA %v, want %v", i, got, ok, want)
		}
	}
}

func TestS2toS5(t *testing.T) {
	for _, c := range []struct {
		id       string
		free, dt float64
		order    int
		want     float64
	}{
		{"S2", 1, 1, 1, 0.5}, {"S3", 2, 1, 1, 1.5}, {"S4", 1, 1, 2, 1. / 3}, {"S5", 2.5, 1, 1, 1.875},
	} {
		l := Ledger{p: LedgerParams{Rate: 1, Burst: 1, Replicas: 2, Lag: 1}, room: 2, top: 3, order: c.order, pace: 1,
			x: -10}
		l.d = l.top - c.free
		l.Advance(c.dt)
		if got := l.x + 10; math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: ∫m = %v, want %v", c.id, got, c.want)
		}
	}
}

func TestS7(t *testing.T) {
	l := NewLedger(LedgerParams{Rate: 1, Burst: 3, Replicas: 2, Lag: 0.15}, 0)
	l.Hear(0, LedgerSums{Admitted: 5})
	// 2.85 s of the vector, less a lag: the pool was full when the 5 were admitted.
	if w := l.Wait(0, 1); math.Abs(w-2.7) > 0.01 {
		t.Errorf("Wait says %v, want 2.7", w)
	}
	for now := 0.0; now < 5; now += 0.005 {
		if l.Take(now, 1, 0.5) {
			if math.Abs(now-2.7) > 0.01 {
				t.Errorf("first admission at %v, want 2.7", now)
			}
			return
		}
	}
	t.Error("never admitted")
}

// TestAdvanceIsAdditive, and agrees with a numerical integration of m.
func TestAdvanceIsAdditive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := NewLedger(LedgerParams{
			Rate:     math.Pow(10, rapid.Float64Range(-1, 3).Draw(t, "logr")),
			Burst:    rapid.Float64Range(1, 50).Draw(t, "b"),
			Replicas: 5, Lag: rapid.Float64Range(0.01, 1).Draw(t, "lag"),
		}, 0)
		l.Hear(0, LedgerSums{Admitted: rapid.Float64Range(0, 80).Draw(t, "d"), Active: 4})
		l.x = -1
		whole, parts, slow := l, l, l.x
		end := 100 / l.p.Rate * rapid.Float64Range(0.01, 1).Draw(t, "end")
		whole.Advance(end)
		const n = 2000
		for i := range n {
			mid := min(l.top, l.top-l.d+l.p.Rate*end*(float64(i)+0.5)/n)
			slow += l.pace * l.speed(mid) * l.p.Rate * end / n
		}
		for range 7 {
			parts.Advance(rapid.Float64Range(0, end).Draw(t, "t"))
		}
		parts.Advance(end)
		if !near(whole.d, parts.d, 1e-9) || !near(whole.x, parts.x, 1e-9) {
			t.Fatalf("one step d=%v x=%v, parts d=%v x=%v", whole.d, whole.x, parts.d, parts.x)
		}
		if math.Abs(whole.x-min(1, slow)) > 1e-3 {
			t.Fatalf("x = %v, numerical %v", whole.x, min(1, slow))
		}
	})
}

// TestOneReplicaIsGCRA: the same decisions, but for arrivals so close to the
// edge that nanoseconds decide, and D = (TAT−t)·r at all times.
func TestOneReplicaIsGCRA(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := math.Pow(10, rapid.Float64Range(-3, 5).Draw(t, "logr"))
		b := float64(rapid.IntRange(1, 200).Draw(t, "b"))
		strict := rapid.Bool().Draw(t, "strict")
		l := NewLedger(LedgerParams{Rate: r, Burst: b, Replicas: 1, Strict: strict}, 0)
		g := GCRA{Rate: r, Burst: b}
		var tat, now int64
		for range 200 {
			now += int64(rapid.Float64Range(0, 3).Draw(t, "gap") / r * 1e9)
			cost := rapid.SampledFrom([]float64{0.5, 1, 1, 1, 2.25}).Draw(t, "cost")
			slack := 1e-6*b + 8*math.Sqrt(b)*r*1e-9 + 200*r*1e-9
			edge := math.Abs(b-SpentAt(tat, now, r)-cost) < slack
			next, ok := g.Take(tat, now, cost)
			wait := g.Wait(tat, now, cost)
			if (wait == 0) != ok {
				t.Fatalf("Wait %d but Take %v", wait, ok)
			}
			l.Advance(float64(now) * 1e-9)
			if edge {
				l = FromSpent(l.p, float64(now)*1e-9, SpentAt(tat, now, r))
				continue
			}
			if got := l.Take(float64(now)*1e-9, cost, 0.3); got != ok {
				t.Fatalf("now %d cost %v: ledger %v (d=%v), GCRA %v (D=%v)", now, cost, got, l.d, ok,
					SpentAt(tat, now, r))
			}
			tat = next
			if math.Abs(l.d-SpentAt(tat, now, r)) > slack {
				t.Fatalf("D: ledger %v, GCRA %v", l.d, SpentAt(tat, now, r))
			}
			if back := SpentAt(TATFor(l.d, now, r), now, r); back < l.d*(1-1e-12)-1e-15 || back > l.d*(1+1e-12)+2e-9*r {
				t.Fatalf("TATFor(%v) holds %v", l.d, back)
			}
		}
	})
}

// TestGCRAMeanIsExact where a request is not a whole number of nanoseconds.
func TestGCRAMeanIsExact(t *testing.T) {
	for _, r := range []float64{3, 3e3, 3e6, 3e7} {
		var tat, n int64
		end := int64(2e5 / r * 1e9)
		for tat <= end {
			tat, _ = Take(tat, tat, r, 1e6, 1)
			n++
		}
		if mean := float64(n) / float64(end) * 1e9 / r; math.Abs(mean-1) > 1e-3 {
			t.Errorf("r=%v: mean/r %v", r, mean)
		}
	}
}

// drive feeds a ledger random events and calls check after each.
func drive(t *rapid.T, l *Ledger, scale float64, check func(admitted bool, before float64)) []bool {
	var got []bool
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	now, heard := 0.0, 0.0
	for range 300 {
		now += rng.ExpFloat64() / l.p.Rate / 3
		free := func() float64 { l.Advance(now); return l.top - l.d }()
		ok := false
		switch rng.IntN(6) {
		case 0:
			heard += float64(rng.IntN(3)) - 0.3
			heard = max(0, heard)
			l.Hear(now, LedgerSums{Admitted: heard, Claims: .6 / scale * rng.Float64(), Active: float64(rng.IntN(3)),
				Unsaturated: .3 / scale * rng.Float64()})
		case 1:
			l.Publish(now)
		default:
			ok = l.Take(now, 1, rng.Float64())
			got = append(got, ok)
		}
		check(ok, free)
	}
	return got
}

func TestLedgerInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := NewLedger(LedgerParams{
			Rate:     math.Pow(10, rapid.Float64Range(-2, 3).Draw(t, "logr")),
			Burst:    rapid.Float64Range(1, 40).Draw(t, "b"),
			Replicas: float64(rapid.IntRange(1, 20).Draw(t, "n")), Lag: .15, Strict: rapid.Bool().Draw(t, "strict"),
		}, 0)
		count := 0.0
		drive(t, &l, 1, func(ok bool, free float64) {
			if ok {
				count++
			}
			f, s := l.Shares()
			switch {
			case l.d < 0 || l.x < -1 || l.x > 1 || l.recent < 0 || l.before < 0:
				t.Fatalf("state out of range: %+v", l)
			case !(0 < s && s <= f && f <= 1):
				t.Fatalf("shares: s %v f %v", s, f)
			case ok && free < 1-1e-6:
				t.Fatalf("admitted with L = %v", free)
			case l.admitted != count:
				t.Fatalf("A = %v after %v admissions", l.admitted, count)
			}
		})
	})
}

// TestWaitIsSound: left alone, a refused request passes at the announced time, and
// not well before it. Replicas that are not asked meanwhile withdraw their claims.
func TestWaitIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := NewLedger(LedgerParams{
			Rate:     math.Pow(10, rapid.Float64Range(-1, 3).Draw(t, "logr")),
			Burst:    rapid.Float64Range(1, 40).Draw(t, "b"),
			Replicas: float64(rapid.IntRange(1, 8).Draw(t, "n")), Lag: .15, Strict: rapid.Bool().Draw(t, "strict"),
		}, 0)
		drive(t, &l, 1, func(bool, float64) {})
		w := l.Wait(l.at, 1)
		late, early := l, l
		rest(&late, w)
		rest(&early, w)
		exact := w < 2*l.p.Lag || l.p.Replicas == 1 || !l.p.Strict && l.p.Burst >= 1+l.room
		off := w*1e-9 + 1e-7
		if !exact {
			off = w*.02 + .01
		}
		if !late.Take(l.at+w+off, 1, .5) {
			t.Fatalf("Wait %v, yet refused then: %+v", w, late)
		}
		if w > 1e-3 && exact && (w < 2*l.p.Lag || w > 2.1*l.p.Lag) && early.Take(l.at+w*0.99, 1, .5) {
			t.Fatalf("Wait %v, yet admitted at .99 of it", w)
		}
	})
}

// rest lets replicas withdraw their claims while a request waits.
func rest(l *Ledger, w float64) {
	if w < 2*l.p.Lag || l.p.Replicas == 1 {
		return
	}
	from, quiet := l.at, l.others
	quiet.Claims, quiet.Active, quiet.Unsaturated, quiet.Contended = 0, 0, 0, false
	l.Hear(from+l.p.Lag, quiet)
	for at := from + l.p.Lag; at < from+w*.98; at += max(l.p.Lag, w/100) {
		l.Publish(at)
	}
}

// TestTimeScaling: time times k and r by 1/k leave every decision as it is, as
// far as δ scales as well (the demand window is absolute: no claims here).
func TestTimeScaling(t *testing.T) {
	decide := func(k float64) []bool {
		l := NewLedger(LedgerParams{Rate: 8 / k, Burst: 10, Replicas: 4, Lag: .125 * k, Strict: true}, 0)
		rng := rand.New(rand.NewPCG(5, 5))
		var got []bool
		now := 0.0
		for i := range 2000 {
			now += k * float64(rng.IntN(64)) / 256
			if i%5 == 0 {
				l.Hear(now, LedgerSums{Admitted: float64(i / 9), Claims: 5 / k, Active: 2})
			}
			got = append(got, l.Take(now, 1, .25))
		}
		return got
	}
	base := decide(1)
	for _, k := range []float64{0.25, 4, 64} {
		for i, ok := range decide(k) {
			if ok != base[i] {
				t.Fatalf("k=%v: decision %d is %v, want %v", k, i, ok, base[i])
			}
		}
	}
}

func TestRefundUndoes(t *testing.T) {
	l := NewLedger(LedgerParams{Rate: 5, Burst: 10, Replicas: 3, Lag: .15}, 0)
	l.Take(1, 2, .5)
	before := l
	l.Take(1, 3, .5)
	l.Refund(3)
	if l.d != before.d || l.admitted != before.admitted || l.recent != before.recent || l.x < before.x {
		t.Errorf("after a refund %+v, want %+v", l, before)
	}
}

func TestLedgerConfigureKeepsCounts(t *testing.T) {
	l := NewLedger(LedgerParams{Rate: 5, Burst: 10, Replicas: 3, Lag: .15}, 0)
	for range 4 {
		l.Take(1, 1, .5)
	}
	d, a := l.Spent(), l.Admitted()
	l.Configure(LedgerParams{Rate: 50, Burst: 100, Replicas: 3, Lag: .15}, 1)
	if l.Spent() != d || l.Admitted() != a {
		t.Errorf("spent %v admitted %v, want %v %v", l.Spent(), l.Admitted(), d, a)
	}
}

func TestHearEpochAndFirstContact(t *testing.T) {
	p := LedgerParams{Rate: 1, Burst: 10, Replicas: 3, Lag: .15}
	l := NewLedger(p, 0)
	l.Hear(0, LedgerSums{Admitted: 1e6, Spent: 3, Epoch: 1})
	if l.Spent() != 3-.15 {
		t.Errorf("new epoch: spent %v, want 3 less a lag's refill: the rest was repaid long ago", l.Spent())
	}
	l.Hear(0, LedgerSums{Admitted: 1e6 + 2, Spent: 5, Epoch: 1})
	l.Hear(0, LedgerSums{Admitted: 1e6 + 1, Spent: 5, Epoch: 1})
	if math.Abs(l.Spent()-3.85) > 1e-9 {
		t.Errorf("signed change: spent %v, want 3.85", l.Spent())
	}
	l = FromSpent(p, 0, 2)
	l.FirstContact(0, LedgerSums{Admitted: 1e6, Spent: 7, Epoch: 1}, 0, 0)
	if math.Abs(l.Spent()-(2+7-.15)) > 1e-9 {
		t.Errorf("first contact: spent %v, want 2 + 7 less a lag's refill", l.Spent())
	}
	l = NewLedger(p, 0)
	l.FirstContact(0, LedgerSums{Admitted: 1, Spent: 7, Epoch: 1}, 0, 0)
	if math.Abs(l.Spent()-(7-.15)) > 1e-9 {
		t.Errorf("first contact after a restart: spent %v, want 7 less a lag's refill", l.Spent())
	}
	for _, tc := range []struct{ spent, known, want float64 }{
		{6, 5, 7.85},   // 1 of its own, and 6.85 that the others see as spent, 5 of it known
		{8, 7.5, 8},    // more than the others know of by now
		{3, 1, 8.85},   // 2 of its own, 6.85 of the others
		{2, 100, 6.85}, // never below what they see
	} {
		l = FromSpent(p, 0, tc.spent)
		l.FirstContact(0, LedgerSums{Admitted: 1e6, Spent: 7, Epoch: 1}, max(0, tc.spent-tc.known), tc.known)
		if math.Abs(l.Spent()-tc.want) > 1e-9 {
			t.Errorf("%v spent, %v of it known to those who see 7: %v in all, want %v", tc.spent, tc.known, l.Spent(),
				tc.want)
		}
	}
}

// An agent that restarted counts from zero: what this ledger has charged already is
// not charged again, what it missed is.
func TestLedgerNewEpoch(t *testing.T) {
	p := LedgerParams{Rate: 10, Burst: 100, Replicas: 2, Lag: .1}
	hear := func(l *Ledger, epoch uint32, admitted, spent float64) float64 {
		l.Hear(0, LedgerSums{Epoch: epoch, Admitted: admitted, Spent: spent, Contended: true})
		return l.Spent()
	}
	l := NewLedger(p, 0)
	before := l.Spent()
	if first := hear(&l, 1, 40, 60); math.Abs(first-before-39) > 1e-9 {
		t.Errorf("the first count charged %v, want 40 less a lag's refill", first-before)
	}
	known := l.Spent()
	if again := hear(&l, 2, 40, known); again != known {
		t.Errorf("a new epoch of the same admissions charged %v", again-known)
	}
	if missed := hear(&l, 3, 5, known+7); missed < known+7-1e-9 || missed > known+7+1e-9 {
		t.Errorf("spent is %v after a new epoch that knows of 7 more, want %v", missed, known+7)
	}
}

// A replica that announces a huge amount blocks the key for a bounded time only.
func TestLedgerBelievesABoundedAmount(t *testing.T) {
	p := LedgerParams{Rate: 10, Burst: 20, Replicas: 3, Lag: 0.1}
	for name, l := range map[string]Ledger{"in use": NewLedger(p, 0), "with debt": FromSpent(p, 0, 1e6)} {
		before := l.Spent()
		l.Hear(1, LedgerSums{Epoch: 1, Admitted: 1, Spent: 1})
		l.Hear(1, LedgerSums{Epoch: 1, Admitted: 1e12, Spent: 1e12})
		if most := max(before, 3*20.); l.Spent() > most {
			t.Errorf("%s: %v spent after a count of 1e12, want %v at most", name, l.Spent(), most)
		}
	}
	l := NewLedger(p, 0)
	l.FirstContact(0, LedgerSums{Epoch: 1, Admitted: 1e12, Spent: 1e12}, 0, 0)
	if l.Spent() > 60 {
		t.Errorf("at first contact: %v spent, want 60 at most", l.Spent())
	}
}

// A key that one of three replicas uses is a token bucket, also once it has a ledger. What
// passes of a client that asks all the time is r·t + b, and the wait that the ledger
// returns ends when the next request passes.
func TestOneReplicaOfThreeIsATokenBucket(t *testing.T) {
	for _, p := range []LedgerParams{
		{Rate: 1. / 3600, Burst: 1}, {Rate: 0.5, Burst: 1}, {Rate: 10, Burst: 1}, {Rate: 10, Burst: 3},
		{Rate: 100, Burst: 2},
	} {
		p.Replicas, p.Lag = 3, 0.127
		l, passed := FromSpent(p, 0, 1), 1.0 // its slot has admitted one
		for i := range 5000 {
			now := float64(i) / 100
			if wait := l.Wait(now, 1); l.Take(now, 1, 0.3) {
				passed++
			} else if wait <= 0 || wait > 1/p.Rate {
				t.Fatalf("%+v: refused at %v s, wait %v s", p, now, wait)
			}
			if most := p.Rate*now + p.Burst; passed > most+1e-6 {
				t.Fatalf("%+v: %v passed in %v s, at most %v may", p, passed, now, most)
			}
			l.Publish(now)
		}
		if l.Wait(50, p.Burst+1) != math.Inf(1) {
			t.Errorf("%+v: a cost above the burst is told to wait", p)
		}
	}
}

// Two gateways that begin within a lag of each other each see only their own burst as spent. The
// third one, which receives the sums of both at once, owes both.
func TestFirstContactOfTwo(t *testing.T) {
	p := LedgerParams{Rate: 10, Burst: 10, Replicas: 3, Lag: .135}
	others := LedgerSums{Admitted: 20, Spent: 10, Own: 20, Epoch: 1}
	const late = .5 + 1.35 // refilled since, and of a lag
	l := NewLedger(p, 0)
	for range 10 {
		l.Take(0, 1, .5)
	}
	began := FromSpent(p, .05, 9.5)
	l.Hear(.05, others)
	if got := l.Spent(); got < 30-late {
		t.Errorf("%.2f is spent, want %.2f at least", got, 30-late)
	}
	began.FirstContact(.05, others, 9.5, 0)
	if got := began.Spent(); got < 30-late-1e-9 {
		t.Errorf("a ledger that begins: %.2f is spent, want %.2f", got, 30-late)
	}
	before := l.Spent()
	l.Hear(.05, LedgerSums{Admitted: 20, Spent: 10, Own: 20, Epoch: 2})
	if got := l.Spent(); got != before {
		t.Errorf("a new epoch of the same admissions: %.2f is spent, want %.2f", got, before)
	}
	again := FromSpent(p, .05, 9.5)
	again.Hear(.05, LedgerSums{Admitted: 0, Epoch: 1})
	again.Hear(.05, LedgerSums{Admitted: 20, Spent: 10, Own: 20, Epoch: 2})
	if got := again.Spent(); got < 30-late {
		t.Errorf("a new epoch of two that did not know of each other: %.2f is spent, want %.2f", got, 30-late)
	}
}

// What others admitted while they were unreachable is debt as far as this replica has used the
// same refill. It is debt at least as far as they have not repaid it themselves.
func TestDebtOfACut(t *testing.T) {
	p := LedgerParams{Rate: 10, Burst: 10, Replicas: 2, Lag: .1}
	hear := func(l *Ledger, now, admitted, own, gap float64) float64 {
		l.Hear(now, LedgerSums{Admitted: admitted, Spent: own, Own: own, Epoch: 1, Gap: gap})
		return l.Spent()
	}
	for _, tc := range []struct {
		name                 string
		from                 float64 // this replica is busy from then on, until 4 s
		admitted, own, spent float64
	}{
		{"both have used all refill", .2, 48, 8, 10 + 48 - 3}, // but for that of .2 s and a lag
		{"this one was idle", 4, 48, 8, 8 - 1},
		{"the other one has used nothing", 0, 0, 0, 10},
		{"one after the other", 2, 28, 0, 10 + 28 - 20 - 1},
		{"more than was refilled", 0, 1e6, 8, 10 + 8 + 40},
	} {
		l := NewLedger(p, 0)
		hear(&l, 0, 0, 0, 0)
		hear(&l, .2, 0, 0, -.2)
		for now := tc.from; now < 4; now += .01 {
			l.Take(now, 1, .5)
		}
		l.Advance(4)
		for l.Spent() < 10 && tc.from < 4 {
			l.Owe(4, min(1, 10-l.Spent()), 10)
		}
		if got := hear(&l, 4, tc.admitted, tc.own, 4); math.Abs(got-tc.spent) > .5 {
			t.Errorf("%s: %.2f is spent after the heal, want %.2f", tc.name, got, tc.spent)
		}
	}
}

// No number that another replica may send brings a ledger out of its bounds.
func TestHostileOwnPartsAndGaps(t *testing.T) {
	bad := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e300, 0, 7}
	for _, own := range bad {
		for _, gap := range bad {
			for _, epoch := range []uint32{0, 1, 2} {
				l := NewLedger(LedgerParams{Rate: 10, Burst: 20, Replicas: 3, Lag: .1}, 0)
				l.Take(0, 5, .5)
				l.Hear(1, LedgerSums{Epoch: 1, Admitted: 1, Spent: 1})
				l.Hear(2, LedgerSums{Epoch: epoch, Admitted: 10, Spent: 1, Own: own, Gap: gap})
				l.Hear(3, LedgerSums{Epoch: epoch, Admitted: 4, Spent: 1, Own: own, Gap: -gap})
				l.Advance(4)
				if d, o := l.Spent(), l.Own(); !(d >= 0 && d <= 3*(20+15*10) && o >= 0 && o <= d) {
					t.Errorf("own %v, gap %v, epoch %d: %v is spent, %v of it here", own, gap, epoch, d, o)
				}
			}
		}
	}
}

// What is only assumed of an unreachable replica is not known to be spent. It is not known while it is assumed,
// nor after the estimate has become part of the count for good. What others certainly admitted is, less what was
// refilled.
func TestAssumedCostIsNotKnown(t *testing.T) {
	l := NewLedger(LedgerParams{Rate: 10, Burst: 20, Replicas: 3, Lag: .1}, 0)
	l.Hear(0, LedgerSums{Admitted: 5, Claims: 10, Spent: 5, Own: 5, Epoch: 1})
	l.Take(0, 1, 0)
	if l.Known() != l.Spent() {
		t.Fatalf("%v of %v is known before the silence", l.Known(), l.Spent())
	}
	s := LedgerSums{Admitted: 5, Claims: 10, Epoch: 1}
	for now := .5; now <= 5; now += .5 {
		s.Admitted, s.Assumed, s.Gap = s.Admitted+5, s.Assumed+5, -now
		l.Hear(now, s)
	}
	if l.Spent() < 5 || l.Known() != 0 {
		t.Errorf("%v spent, %v known, want what is assumed, and 0", l.Spent(), l.Known())
	}
	s.Gap, s.Claims = 0, 0 // it is forgotten, its estimate stays
	l.Hear(5.5, s)
	s.Admitted += 12 // another one
	l.Hear(6, s)
	if known := l.Known(); known <= 0 || known > 12 {
		t.Errorf("%v known of the 12 that were admitted", known)
	}
	if l.Advance(60); l.Known() != 0 || l.Spent() != 0 {
		t.Errorf("%v spent, %v known of an idle key", l.Spent(), l.Known())
	}
}

// Of unreachable replicas no more is assumed than the limit's rate, whatever they last claimed. After a silence they
// may announce the rate for as long, and whole pools.
func TestAnUnreachableLiarIsBelievedTheRate(t *testing.T) {
	p := LedgerParams{Rate: 10, Burst: 20, Replicas: 3, Lag: .1}
	l := NewLedger(p, 0)
	l.Hear(0, LedgerSums{Admitted: 5, Spent: 5, Own: 5, Epoch: 1})
	s := LedgerSums{Admitted: 5, Claims: 1e12, Epoch: 1}
	for now := .3; now <= 15; now += .1 {
		s.Assumed, s.Gap = 1e12*now, -now
		s.Admitted = 5 + s.Assumed
		if l.Hear(now, s); l.Spent() > 5.1 {
			t.Fatalf("%v spent after %.1f s, want no more than before", l.Spent(), now)
		}
	}
	s.Gap, s.Admitted, s.Assumed = 4, 1e12, 0
	if l.Hear(15.2, s); l.Spent() > 3*(20+4*10) {
		t.Errorf("%v spent after a silence of 4 s, want 180 at most", l.Spent())
	}
}

// Demand of a process that decides by its part is claimed while it is to hold, and fades after that.
func TestExpect(t *testing.T) {
	l := NewLedger(LedgerParams{Rate: 10, Burst: 10, Replicas: 2, Lag: .1}, 0)
	for i, c := range []struct{ at, least, most float64 }{{.1, 4, 4}, {.9, 4, 4}, {3, .1, 2}, {60, 0, 0}} {
		if i == 0 {
			l.Expect(0, 4, 1, false)
		}
		if got := l.Publish(c.at); got.Claim < c.least || got.Claim > c.most || got.Active != 0 {
			t.Errorf("after %v s: %+v, want a claim of %v to %v", c.at, got, c.least, c.most)
		}
	}
	if l.Expect(60, 40, 1, true); l.Publish(60.1).Active != 1 {
		t.Error("a demand beyond the limit, refused in part, is not active")
	}
}
