package grant

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// gatePart is a gateway's standing part.
type gatePart struct {
	Standing
	n    int // of gateways by which it divides; 0: it has none
	away Away

	heldUp int64
	paused bool  // since the part is away: it comes back empty
	since  int64 // of its roster; 0: the first
}

// isAway reports whether the part may not be used.
func (g *gate) isAway() bool {
	p := &g.part
	if p.away.Until != 0 && g.w.now >= p.away.Until {
		until := p.away.Until
		if p.Standing, p.away.Until = p.away.Back(), 0; p.paused {
			p.Empty(g.w.p, until)
			p.paused = false
		}
		if p.n != 0 && p.away.Gateways != p.n {
			p.Resize(g.w.p, g.w.now, p.away.Gateways, p.n)
		}
	}
	return p.away.Until != 0
}

func (g *gate) takePart(cost int64) bool {
	part, ok := g.w.p.Part(g.part.n)
	return ok && !g.isAway() && len(g.waiting) == 0 && g.part.Take(part, g.w.now, cost, MostSpends)
}

// divide has the gateway divide by another number.
func (g *gate) divide(n int) {
	if !g.isAway() {
		g.part.Resize(g.w.p, g.w.now, g.part.n, n)
	}
	g.part.n = n
}

// call takes in a call of the part, and returns the answer.
func (g *gate) call(c PartCall) PartAnswer {
	given := g.isAway()
	g.part.away.Give(g.w.now, &c, g.part.Standing, g.part.n, given)
	return g.part.away.Answer(g.w.now, &c, g.w.p)
}

// CallPart implements Outbox.
func (w *world) CallPart(to Peer) {
	w.calls[to].Add(w, false)
	w.after(0, func() { w.sendCalls(to) })
}

func (w *world) sendCalls(to Peer) {
	line, o := &w.calls[to], w.owner
	for _, ok := line.Next(w.now); ok; _, ok = line.Next(w.now) {
		c, open := o.Calling(w.now, to)
		if !open || !w.ownerUp {
			line.Done(w.now, w, false)
			continue
		}
		w.sendPart(func() {
			g := w.gates[to]
			if !g.up {
				return
			}
			a := g.call(c)
			w.sendAnswer(g, func() {
				if w.ownerUp {
					w.owner.PartAnswer(w.now, to, a, w)
					if _, open := w.owner.Calling(w.now, to); !open {
						line.Done(w.now, w, true)
					}
					w.wakeOwner()
				}
			})
		})
	}
	if d := line.Due(w.now); d > 0 {
		w.at(max(d, w.now+1), func() { w.sendCalls(to) })
	}
}

// sendAnswer sends an answer, which waits while what the gateway sends about parts is held up.
func (w *world) sendAnswer(g *gate, f func()) {
	if w.now < g.part.heldUp {
		w.at(g.part.heldUp, f)
		return
	}
	w.sendPart(f)
}

// sendPart sends a message that may come twice, and very late.
func (w *world) sendPart(f func()) {
	w.send(f)
	if w.rng.IntN(20) == 0 {
		w.after(w.rng.Int64N(40*second), f)
	}
}

// fleet is a world whose gateways have standing parts.
type fleet struct {
	*world
	roster  Roster
	changes int // of the roster, under way
	lease   int64
}

func newFleet(p Params, n, begin int, way int64, seed uint64, lease int64) *fleet {
	f := &fleet{world: newWorld(p, n, way, seed), lease: lease}
	f.check, f.refuses = f.checkParts, true
	for i, g := range f.gates {
		if g.up = i < begin; g.up {
			g.part.n = begin
			f.roster.Members = append(f.roster.Members, g.id)
		}
	}
	f.roster.Least = begin
	f.adopt()
	f.after(second, f.forget)
	return f
}

// forget replaces an owner that knows of nothing, from time to time.
func (f *fleet) forget() {
	if f.changes == 0 && f.owner.Whole(f.now) {
		f.renew()
	}
	f.after(second, f.forget)
}

// renew begins another owner, with the roster of now.
func (f *fleet) renew() {
	f.life++
	f.owner = NewOwner(f.p, f.life, f.now)
	f.adopt()
}

// adopt has the owner of now have the roster.
func (f *fleet) adopt() {
	r := f.roster
	r.Members = slices.Clone(r.Members)
	f.owner.BeginRoster(f.now, &r)
	if f.lease != 0 {
		f.owner.parts.lease = f.lease
	}
}

// inForce puts a roster in force, and then does f.
func (f *fleet) inForce(change func(*Roster), then func()) {
	f.changes++
	r := f.roster
	r.Members = slices.Clone(r.Members)
	change(&r)
	r.Since = nil
	for _, p := range r.Members {
		r.Since = append(r.Since, f.gates[p].part.since)
	}
	if r.Least != f.roster.Least {
		r.Ended = append(slices.Clone(r.Ended), EndedRoster{f.roster.Least, f.now})
	}
	if len(r.Members) < len(f.roster.Members) {
		r.Left = f.now
	}
	var try func()
	try = func() {
		if f.owner.Whole(f.now) { // nobody asks: the next owner knows nothing
			f.roster = r
			f.renew()
		} else if !f.owner.SetRoster(f.now, &r, f.world) {
			f.wakeOwner()
			f.after(20*millisecond, try)
			return
		}
		f.wakeOwner()
		f.roster = r
		f.changes--
		then()
	}
	try()
}

// join begins a gateway: the others divide by more first.
func (f *fleet) join(i int) {
	g := f.gates[i]
	if f.changes > 0 || g.up {
		return
	}
	f.changes++
	n := len(f.roster.Members) + 1
	g.g, g.up, g.part = NewGateway(f.p, uint64(f.now)<<20), true, gatePart{}
	for _, other := range f.roster.Members {
		f.after(f.rng.Int64N(second), func() { f.gates[other].divide(n) })
	}
	f.after(second, func() {
		g.part.since = f.now
		f.inForce(func(r *Roster) { r.Members, r.Least = append(r.Members, g.id), n }, func() {
			f.after(f.rng.Int64N(2)*f.rng.Int64N(second), func() {
				g.divide(n)
				f.changes--
			})
		})
	})
}

// leave ends a gateway, in order or not; then the others divide by fewer.
func (f *fleet) leave(i int, crash bool) {
	g := f.gates[i]
	if f.changes > 0 || !g.up || len(f.roster.Members) == 1 {
		return
	}
	f.changes++
	if !crash {
		if q, ok := g.g.Release(f.now); ok {
			g.send(q)
		}
	}
	g.up, g.waiting = false, nil
	n := len(f.roster.Members) - 1
	f.after(3*second, func() {
		f.owner.Lost(f.now, g.id, f.world)
		f.changes--
		f.inForce(func(r *Roster) {
			r.Members = slices.DeleteFunc(r.Members, func(p Peer) bool { return p == g.id })
		}, func() {
			f.inForce(func(r *Roster) { r.Least = n }, func() {
				for _, p := range f.roster.Members {
					f.after(f.rng.Int64N(second), func() { f.gates[p].divide(n) })
				}
				f.changes++
				f.after(second, func() { f.changes-- })
			})
		})
	})
}

// pause ends a gateway's link for a while. It has no parts meanwhile, and none of what it was granted, but it knows
// which parts are away. The others count it as gone, and later as new.
func (f *fleet) pause(i int) {
	g := f.gates[i]
	if f.changes > 0 || !g.up || len(f.roster.Members) == 1 {
		return
	}
	f.changes++
	g.up, g.waiting = false, nil
	n, begin := len(f.roster.Members), f.now
	f.after(3*second, func() {
		f.owner.Lost(f.now, g.id, f.world)
		f.changes--
		f.inForce(func(r *Roster) {
			r.Members = slices.DeleteFunc(r.Members, func(p Peer) bool { return p == g.id })
		}, func() {
			f.changes++
			f.after(f.rng.Int64N(20*second), func() {
				f.changes--
				g.part.since = f.now
				f.inForce(func(r *Roster) { r.Members = append(r.Members, g.id) }, func() { f.resume(g, n, begin) })
			})
		})
	})
}

// resume has a gateway divide again that had no parts since some time.
func (f *fleet) resume(g *gate, n int, begin int64) {
	g.g, g.up = NewGateway(f.p, uint64(f.now)<<20), true
	if p := &g.part; p.away.Until > f.now {
		p.paused = true
	} else if p.away.Until != 0 {
		p.Standing, p.away.Until = NewStanding(f.now), 0
		p.Empty(f.p, f.now)
	} else {
		p.Pause(f.p, begin, f.now, n)
	}
	g.part.n = n
}

// checkParts holds what the bound rests on: what gateways may use beforehand is not the owner's, and nobody has the
// bucket itself then.
func (f *fleet) checkParts() {
	f.owner.advance(f.now)
	sizes, levels, tokens, buckets := int64(0), int64(0), int64(0), 0
	for _, g := range f.gates {
		if !g.up {
			continue
		}
		if valid := g.g.lapseAt == 0 || f.now < g.g.lapseAt; valid {
			tokens += max(0, g.g.counts.tokens())
			if g.g.exclusive {
				buckets++
			}
		}
		part, ok := f.p.Part(g.part.n)
		if !ok || g.isAway() {
			continue
		}
		sizes += part.Burst
		levels += part.Burst - g.part.spent(part, f.now)
		if f.owner.isIn(g.id) {
			panic("a gateway uses a part that its owner has")
		}
	}
	lost, _ := f.owner.writtenOff()
	switch left := f.p.Burst - f.owner.p.Burst; {
	case sizes > left+int64(len(f.gates)):
		panic(fmt.Sprintf("gateways have parts of %d, their owner knows of %d", sizes, left))
	case buckets > 0 && sizes > 0:
		panic("a gateway has the bucket while others have parts")
	case tokens+levels > f.p.Burst+lost+int64(len(f.gates)):
		panic(fmt.Sprintf("gateways have %d and %d, together more than the burst", tokens, levels))
	}
}

// load offers requests for a while, then none for a while, at changing gateways.
func (f *fleet) load(rng *rand.Rand, until int64) {
	for at := int64(0); at < until; {
		rate := f.p.Rate * []float64{.1, .5, .9, 1.2, 4}[rng.IntN(5)]
		burst := 1 + rng.IntN(int(f.p.Burst/Token)+1)
		first, spread := rng.IntN(len(f.gates)), 1+rng.IntN(len(f.gates))
		end := at + int64(rng.Float64()*15*second)
		for range burst {
			f.at(at, func() { f.request((first+f.rng.IntN(spread))%len(f.gates), Token) })
		}
		for t := at; t < end; t += int64(rng.ExpFloat64() / rate * second) {
			f.at(t, func() { f.request((first+f.rng.IntN(spread))%len(f.gates), Token) })
		}
		at = end + int64(rng.Float64()*40*second)
	}
}

// playParts plays a random fleet, and returns what broke.
func playParts(seed uint64, without rule, loss float64) (over, bound float64, f *fleet, failed any) {
	rng := rand.New(rand.NewPCG(seed, 7))
	p := Params{Rate: []float64{.5, 1, 2, 5, 10, 20}[rng.IntN(6)], without: without, Strict: true}
	p.Burst = int64(26+rng.IntN(50)) * Token
	n := 2 + rng.IntN(5)
	if seed%8 == 7 { // parts become too small
		n += 6
	}
	way := int64(50+rng.IntN(1950)) * 1000
	f = newFleet(p, n, 1+rng.IntN(n), way, seed, 20*second)
	f.loss = loss
	until := int64(150 * second)
	f.load(rng, until)
	for range rng.IntN(6) {
		i, at, what := rng.IntN(n), rng.Int64N(until), rng.IntN(6)
		f.at(at, func() {
			switch what {
			case 0, 1:
				f.join(i)
			case 2:
				f.leave(i, false)
			case 3:
				f.leave(i, true)
			case 4:
				f.pause(i)
			case 5:
				f.gates[i].part.heldUp = f.now + 10*second + f.rng.Int64N(40*second)
			}
		})
	}
	defer func() { failed = recover() }()
	f.run(until + 10*second)
	return excess(f.p, f.admitted), 1 + 8*p.Rate*float64(way)/second, f, nil
}

// TestPartsConserve: the gateways and their owner admit what one bucket allows, though gateways join, leave or crash,
// and messages come late or twice.
func TestPartsConserve(t *testing.T) {
	byPart, offered := 0, 0
	for seed := range uint64(partSeeds) {
		over, bound, f, failed := playParts(seed, 0, 0)
		if failed != nil || over > bound {
			t.Errorf("seed %d: %v; %.2f over, bound %.2f; %+v", seed, failed, over, bound, f.p)
		}
		byPart, offered = byPart+f.byPart, offered+f.offered
	}
	t.Logf("%d of %d by parts", byPart, offered)
}

const partSeeds = 1000

// TestPartsConserveWithLoss holds the same with messages lost, but for what an owner has written off.
func TestPartsConserveWithLoss(t *testing.T) {
	for seed := range uint64(partSeeds / 8) {
		if _, _, f, failed := playParts(seed, 0, .3); failed != nil {
			t.Errorf("seed %d: %v; %+v", seed, failed, f.p)
		}
	}
}

// TestPartRulesAreNeeded leaves out each rule, and sees that something breaks.
func TestPartRulesAreNeeded(t *testing.T) {
	for r := ruleLapse; r <= ruleAllIn; r <<= 1 {
		if of := directly[r]; of != nil {
			if of(0) || !of(r) {
				t.Errorf("rule %b: broken with it %v, without it %v", r, of(0), of(r))
			}
			continue
		}
		broken := false
		for seed := uint64(0); seed < partSeeds && !broken; seed++ {
			over, bound, _, failed := playParts(seed, r, 0)
			if broken = failed != nil || over > bound; broken {
				t.Logf("rule %b: seed %d, %v, %.2f over", r, seed, failed, over)
			}
		}
		if !broken {
			t.Errorf("without rule %b nothing breaks", r)
		}
	}
}

// directly has the rules that a random fleet needs seldom, and whether something breaks without a rule.
var directly = map[rule]func(rule) bool{
	ruleEnded: func(r rule) bool { // parts of nine gateways are too small, parts of eight were not
		o := NewOwner(Params{Rate: 1, Burst: 33 * Token, without: r}, 1, 100*second)
		o.BeginRoster(100*second, &Roster{Members: []Peer{1, 2, 3, 4, 5, 6, 7, 8, 9}, Least: 9,
			Ended: []EndedRoster{{8, 99 * second}}})
		return o.b.free(o.p) > 10*Token
	},
	ruleLeft: func(r rule) bool { // one of three gateways has left, and may have spent its part of 8 tokens
		o := NewOwner(Params{Rate: 1, Burst: 30 * Token, without: r}, 1, 100*second)
		o.BeginRoster(100*second, &Roster{Members: []Peer{1, 2}, Least: 3, Left: 99 * second})
		return o.b.free(o.p) > (30-2*8-8+1)*Token
	},
	ruleSince: func(r rule) bool { // a gateway has just come, and says that it has spent nothing
		o, w := short(r, 0, 0, 99*second)
		return o.b.free(o.p)+w.grants[len(w.grants)-1].Granted > 6*Token+12*Token+Token
	},
	ruleReturn: func(r rule) bool { // a gateway that has been counted as gone keeps away since before
		p, w, now := Params{Rate: 1, Burst: 30 * Token, without: r}, &wire{}, int64(100*second)
		o, a := NewOwner(p, 7, now), Away{}
		call := func(r *Roster) {
			o.SetRoster(now, r, w)
			o.b.spent = o.p.Burst
			o.call(now, 1, w)
			c, _ := o.Calling(now, 1)
			a.Give(now, &c, Standing{}, 1, a.Until > now)
			o.PartAnswer(now, 1, a.Answer(now, &c, p), w)
		}
		call(&Roster{Members: []Peer{1}, Least: 1})
		now += 40 * second
		o.SetRoster(now, &Roster{Least: 1}, w)
		call(&Roster{Members: []Peer{1}, Since: []int64{now}, Least: 1})
		return o.b.free(o.p) > Token
	},
	ruleSmall: func(r rule) bool {
		p := Params{Rate: 1, Burst: 33 * Token, without: r}
		s := Standing{}
		s.Resize(p, 100*second, 9, 8)
		part, _ := p.Part(8)
		return s.Take(part, 100*second, Token, MostSpends)
	},
	ruleSize: func(r rule) bool { // the gateways divide by more than the owner counts
		o, w := short(r, 3)
		return o.b.free(o.p)+w.grants[len(w.grants)-1].Granted > 6*Token+2*8*Token+Token/100
	},
	ruleValid: func(r rule) bool {
		o, w := short(r, 2)
		return w.grants[len(w.grants)-1].Valid > o.parts.lease
	},
}

// short is an owner of 30 tokens, of which two gateways have parts, that a third one has asked for 17. It has called
// both, and given the third one the bucket.
func short(without rule, divisor int, since ...int64) (*Owner, *wire) {
	p, w, now := Params{Rate: 1, Burst: 30 * Token, without: without}, &wire{}, int64(100*second)
	o := NewOwner(p, 7, now)
	o.BeginRoster(now, &Roster{Members: []Peer{1, 2}, Since: since, Least: 2})
	g := NewGateway(p, 1<<20)
	g.Take(now, 17*Token)
	q, _ := g.Ask(now)
	o.Request(now, 3, q, w)
	for _, of := range []Peer{1, 2} {
		c, _ := o.Calling(now, of)
		a := Away{}
		a.Give(now, &c, Standing{}, divisor, false)
		o.PartAnswer(now, of, a.Answer(now, &c, p), w)
	}
	return o, w
}

// The first parts of all are full: what there is of a bucket in use stays the same.
func TestFirstPartsAreFull(t *testing.T) {
	p, now := Params{Rate: 1, Burst: 30 * Token}, int64(100*second)
	o, w := NewOwner(p, 7, now), &wire{}
	o.b.spent = 5 * Token
	if !o.SetRoster(now, &Roster{Members: []Peer{1, 2}, Least: 2}, w) {
		t.Fatal("the owner counts no parts")
	}
	part, _ := p.Part(2)
	if left := o.b.free(o.p) + 2*part.Burst; left < 25*Token-3 || left > 25*Token {
		t.Errorf("%d are left of 25 tokens", left)
	}
	if !o.SetRoster(now, &Roster{Members: []Peer{1, 2, 3}, Least: 3}, w) {
		t.Fatal("the owner counts no third part")
	}
	part, _ = p.Part(3)
	if left := o.b.free(o.p) + 2*part.Burst; left > 25*Token {
		t.Errorf("%d are left of 25 tokens when an empty part has come", left)
	}
}

// An owner that is short before gateways have begun with their first parts has them whole: nobody has spent anything.
func TestFirstPartsThatHaveNotBegun(t *testing.T) {
	o, w := short(0, 0)
	if left := o.b.free(o.p) + w.grants[len(w.grants)-1].Granted; left < 30*Token {
		t.Errorf("%d are left of 30 tokens", left)
	}
}

// While a gateway has no parts, others may get the refill of the whole bucket, which counts as spent. And a part is
// spent in proportion to the bucket, as far as others know of that.
func TestPausedPart(t *testing.T) {
	p := Params{Rate: 1, Burst: 30 * Token}
	part, _ := p.Part(2)
	s, now := Standing{}, int64(100*second)
	s.Take(part, now, 4*Token, MostSpends)
	before := s.spent(part, now+second)
	s.Pause(p, now+second, now+4*second, 2)
	if d, want := s.spent(part, now+4*second), before+3*Token; d < want-10 || d > want+10 {
		t.Errorf("%d are spent after a pause of 3 s, %d before", d, before)
	}
	s.Pause(p, now+4*second, now+60*second, 2)
	if d := s.spent(part, now+60*second); d < part.Burst || d > part.Burst+10 {
		t.Errorf("%d are spent after a long pause, want all of %d", d, part.Burst)
	}
	s = Standing{}
	s.Take(part, now, 9*Token, MostSpends)
	before = s.spent(part, now+9*second)
	s.AtLeast(p, part, now+9*second, 10*Token)
	if d := s.spent(part, now+9*second); d != before {
		t.Errorf("%d are spent, want %d, which is more than a third", d, before)
	}
	s.AtLeast(p, part, now+9*second, 20*Token)
	if d := s.spent(part, now+9*second); d < 8*Token || d > 8*Token+10 {
		t.Errorf("%d are spent, want two thirds of 12 tokens", d)
	}
	if full := (&Standing{}); full.spent(part, now) != 0 {
		t.Error("a part that nobody has used is spent")
	}
}
