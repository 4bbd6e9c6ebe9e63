package calendar

import "testing"

const hour = 3600 * second

// kills plays a day at three times the amount with 50 total losses of owners and gateways, and returns the world.
func kills(t *testing.T, seed uint64, amount Units, without rule) *world {
	w := newWorld(t, seed, amount, without)
	w.loss = .02
	a := w.agent()
	for range 3 {
		w.gateway(a)
	}
	rate := 3 * amount.Cost() / (24 * 3600)
	w.load(rate, Unit, w.length-second)
	for range 50 {
		w.at(w.rnd.Int64N(w.length), func() {
			w.agents[len(w.agents)-1].dead = true
			for _, g := range w.gateways {
				g.dead = true
			}
			next := w.agent()
			for range 3 {
				w.gateway(next)
			}
		})
	}
	w.run(w.length - second)
	return w
}

func TestTotalLosses(t *testing.T) {
	for seed := range uint64(5) {
		w := kills(t, seed, 20_000*Unit, none)
		unused := w.amount - w.admitted[1]
		if step := w.amount / 1000; w.over() > 0 || unused > 75*step {
			t.Errorf("seed %d: %v over, %v unused, want 0 and at most %v", seed, w.over().Cost(), unused.Cost(),
				(75 * step).Cost())
		}
	}
}

// Two owners at once, each of which reaches the coordinator.
func twoOwners(t *testing.T, without rule) *world {
	w := newWorld(t, 3, 10_000*Unit, without)
	w.loss = .02
	a, b := w.agent(), w.agent()
	a.o.SetAlone(true)
	b.o.SetAlone(true)
	w.gateway(a)
	w.gateway(b)
	w.load(20, Unit, hour)
	w.run(hour)
	return w
}

func TestTwoOwners(t *testing.T) {
	if w := twoOwners(t, none); w.over() > 0 || w.amount-w.admitted[1] > 100*Unit {
		t.Errorf("%v over, %v unused", w.over().Cost(), (w.amount - w.admitted[1]).Cost())
	}
	if w := twoOwners(t, intervals); w.over() < 100*Unit {
		t.Errorf("without rule 1: %v over", w.over().Cost())
	}
}

// slowStore plays an hour with a store that takes seconds.
func slowStore(t *testing.T, without rule) *world {
	w := newWorld(t, 4, 20_000*Unit, without)
	w.open = without != openRule
	w.store.delay = func() int64 { return second + w.rnd.Int64N(9*second) }
	a := w.agent()
	w.gateway(a)
	w.gateway(a)
	w.load(5, Unit, hour)
	w.run(hour)
	return w
}

func TestSlowStore(t *testing.T) {
	if w := slowStore(t, none); w.over() > 0 || w.refused > 0 {
		t.Errorf("%v over, %d of %d refused", w.over().Cost(), w.refused, w.offered)
	}
	if w := slowStore(t, openRule); w.refused < 100 {
		t.Errorf("without rule 6: %d refused", w.refused)
	}
	with, without := slowStore(t, none).store.end[1], slowStore(t, repeats).store.end[1]
	if without < with+with/20 {
		t.Errorf("without rule 2: %v booked, with it %v", without.Cost(), with.Cost())
	}
}

// awayStore plays a store that is away for an hour, while the owner moves.
func awayStore(t *testing.T, without rule, amount Units) *world {
	w := newWorld(t, 5, amount, without)
	a := w.agent()
	w.gateway(a)
	w.gateway(a)
	w.load(5, Unit, 2*hour)
	w.at(hour/2, func() { w.store.away = true })
	w.at(hour, func() { w.move(a, w.agent(), true) })
	w.at(3*hour/2, func() { w.store.away = false })
	w.run(2 * hour)
	return w
}

func TestStoreAway(t *testing.T) {
	if w := awayStore(t, none, 50_000*Unit); w.refused > 0 {
		t.Errorf("%d of %d refused", w.refused, w.offered)
	}
	if w := awayStore(t, none, 20_000*Unit); w.over() > 0 || w.amount-w.admitted[1] > 100*Unit {
		t.Errorf("%v over, %v unused", w.over().Cost(), (w.amount - w.admitted[1]).Cost())
	}
	if w := awayStore(t, known, 20_000*Unit); w.over() == 0 {
		t.Error("without rule 7: nothing is over")
	}
}

// parted plays two owners that do not reach each other while the store is away.
func parted(t *testing.T, without rule) *world {
	w := newWorld(t, 6, 10_000*Unit, without)
	a, b := w.agent(), w.agent()
	for _, one := range w.agents {
		one.o.SetAlone(without != alone)
	}
	w.gateway(a)
	w.gateway(b)
	w.load(20, Unit, 2*hour)
	w.at(60*second, func() { w.store.away = true })
	w.at(3*hour/2, func() { w.store.away = false })
	w.run(2 * hour)
	return w
}

func TestParted(t *testing.T) {
	if w := parted(t, none); w.over() > 0 {
		t.Errorf("%v over", w.over().Cost())
	}
	if w := parted(t, alone); w.over() == 0 {
		t.Error("without rule 6: nothing is over")
	}
}

// lostDebt plays an owner that is lost with the store away, and the next one. That books before it knows of all units
// that the first one granted by its own count.
func lostDebt(t *testing.T, seed uint64, without rule) *world {
	w := newWorld(t, seed, 400*Unit, without)
	a := w.agent()
	early, late := w.gateway(a), w.gateway(a)
	w.loadAt(5, 20*second, func() { early.request(Unit) })
	w.at(10*second, func() { w.store.away = true })
	w.loadAt(5, 40*second, func() { late.request(Unit) })
	w.at(60*second, func() {
		a.dead, w.store.away = true, false
		next := w.agent()
		for i, g := range []*gatewaySim{early, late} {
			w.at(w.now+int64(i)*300*millisecond, func() {
				g.owner = next
				g.g.Move(w.now, 0, w.session())
				g.request(Unit)
			})
		}
		w.load(5, Unit, 200*second)
	})
	w.run(200 * second)
	return w
}

func TestOwnerLostInDebt(t *testing.T) {
	over := Units(0)
	for seed := range uint64(10) {
		if w := lostDebt(t, seed, none); w.over() > 0 || w.amount-w.admitted[1] > 30*Unit {
			t.Errorf("seed %d: %v over, %v unused", seed, w.over().Cost(), (w.amount - w.admitted[1]).Cost())
		}
		over += lostDebt(t, seed, unbooked).over()
	}
	if over == 0 {
		t.Error("without the part of rule 7 about units without an interval: nothing is over")
	}
}

// flood plays the end of a period under a flood.
func flood(t *testing.T, without rule) *world {
	w := newWorld(t, 7, 1000*Unit, without)
	w.length, w.ends = 600*second, 600*second
	w.events = nil
	w.at(w.ends, w.nextPeriod)
	a := w.agent()
	for range 5 {
		w.gateway(a)
	}
	w.load(1.2, Unit, 590*second)
	w.at(597*second, func() { w.load(80, Unit, 640*second) })
	w.run(700 * second)
	return w
}

func TestChangeOfPeriod(t *testing.T) {
	if w := flood(t, none); w.over() > 0 || w.admitted[2] < 900*Unit {
		t.Errorf("%v over, %v in the next period", w.over().Cost(), w.admitted[2].Cost())
	}
	if w := flood(t, numbers); w.over() == 0 {
		t.Error("without rule 5: nothing is over")
	}
}

func TestRepeatedMessages(t *testing.T) {
	if w := lossy(t, none); w.over() > 0 || w.amount-w.admitted[1] > 20*Unit {
		t.Errorf("%v over, %v unused", w.over().Cost(), (w.amount - w.admitted[1]).Cost())
	}
	if w := lossy(t, cumulative); w.over() == 0 {
		t.Error("without rule 3: nothing is over")
	}
}

func lossy(t *testing.T, without rule) *world {
	w := newWorld(t, 8, 2000*Unit, without)
	w.loss = .2
	a := w.agent()
	for range 4 {
		w.gateway(a)
	}
	w.load(5, Unit, hour)
	w.run(hour)
	return w
}

// small plays a quota of 100 a day that ten gateways use, and then one.
func small(t *testing.T, seed uint64, without rule) *world {
	w := newWorld(t, seed, 100*Unit, without)
	a := w.agent()
	for range 10 {
		w.gateway(a)
	}
	w.load(30, Unit, 3*second)
	w.loadAt(20, 8*second, func() { w.gateways[0].request(Unit) })
	w.run(9 * second)
	return w
}

func TestSmallQuota(t *testing.T) {
	unused := Units(0)
	for seed := range uint64(10) {
		w := small(t, seed, none)
		if w.over() > 0 || w.admitted[1] < 100*Unit {
			t.Errorf("%v over, %v admitted of 100", w.over().Cost(), w.admitted[1].Cost())
		}
		unused += 100*Unit - small(t, seed, recalls).admitted[1]
	}
	if unused <= 0 {
		t.Error("without rule 8: all is used")
	}
}

func TestBooksAhead(t *testing.T) {
	waits := func(without rule) float64 {
		w := newWorld(t, 10, 100_000*Unit, without)
		w.store.delay = func() int64 { return 15 * millisecond }
		a := w.agent()
		w.gateway(a)
		for at := int64(second); at < hour; at += 20 * second { // bursts of 20
			for i := range int64(20) {
				w.at(at+i*millisecond, func() { w.gateways[0].request(Unit) })
			}
		}
		w.run(hour)
		return float64(w.long) / float64(w.offered)
	}
	with, without := waits(none), waits(stepRule)
	if with > .01 || without < 5*with {
		t.Errorf("%.3f of the requests wait for the store, without rule 4 %.3f", with, without)
	}
}

// A restored store has forgotten the last hour.
func TestRestoredStore(t *testing.T) {
	restored := func(without rule) *world {
		w := newWorld(t, 11, 10_000*Unit, without)
		a := w.agent()
		w.gateway(a)
		w.load(4, Unit, 2*hour)
		var backup Units
		w.at(hour/4, func() { backup = w.store.end[1] })
		w.at(hour/2, func() { w.store.end[1], w.store.given = backup, map[[3]uint64]Booked{} })
		w.at(hour/2+second, func() { // a new owner knows what gateways say
			w.move(a, w.agent(), false)
			a.dead = true
		})
		w.run(2 * hour)
		return w
	}
	if w := restored(none); w.over() > 0 {
		t.Errorf("%v over", w.over().Cost())
	}
	if w := restored(known); w.over() == 0 {
		t.Error("without rule 7: nothing is over")
	}
}

// An orderly end gives back what the owner has.
func TestOrderlyEnd(t *testing.T) {
	w := newWorld(t, 12, 1000*Unit, none)
	a := w.agent()
	w.gateway(a)
	w.load(2, Unit, hour)
	for i := range int64(10) {
		w.at((i+1)*60*second, func() {
			next := w.agent()
			w.move(a, next, true)
			a = next
		})
	}
	w.run(hour)
	if w.over() > 0 || w.admitted[1] < 970*Unit {
		t.Errorf("%v over, %v admitted of 1000, %d intervals came back", w.over().Cost(), w.admitted[1].Cost(),
			w.store.returns)
	}
}
