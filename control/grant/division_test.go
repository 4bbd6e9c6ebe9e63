package grant

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// agents play the agreement on virtual time.
type agents struct {
	*network
	failed  string
	list    map[string]*agent
	lives   uint64
	number  uint64
	seed    uint64
	without agreed
	pause   float64 // part of the time for which owners cannot adopt what they are to count
	full    float64 // of what is divided, to gateways that have begun with full parts
}

type agent struct {
	name  string
	d     *Division
	uses  map[uint64]int // by process: by how many it divides
	alive bool
	plan  Plan
	knows map[string]bool // agents that it takes to be alive
}

func newAgents(seed uint64, loss float64) *agents {
	a := &agents{network: newWorld(Params{Rate: 1, Burst: Token}, 1, millisecond, seed).network,
		list: map[string]*agent{}, seed: seed}
	a.keys, a.loss = nil, loss
	a.after(0, a.second)
	return a
}

func (a *agents) second() {
	for _, name := range slices.Sorted(maps.Keys(a.list)) {
		if x := a.list[name]; x.alive {
			a.step(x, true)
		}
	}
	a.after(second, a.second)
}

// members has all agents know who is alive, of each other one a little later.
func (a *agents) members() {
	for _, name := range slices.Sorted(maps.Keys(a.list)) {
		x := a.list[name]
		for _, other := range slices.Sorted(maps.Keys(a.list)) {
			if other == name {
				continue
			}
			a.after(a.rng.Int64N(second/2), func() {
				if is := a.list[other].alive; x.knows[other] != is {
					if x.knows[other] = is; !is {
						delete(x.knows, other)
					}
					x.d.SetAgents(a.now, slices.Sorted(maps.Keys(x.knows)))
					a.step(x, true)
				}
			})
		}
	}
}

func (a *agents) start(name string) {
	a.lives++
	a.list[name] = &agent{name: name, d: NewDivision(a.now, name, a.lives), uses: map[uint64]int{}, alive: true,
		knows: map[string]bool{}}
	a.list[name].d.without = a.without
	a.members()
}

// stop ends an agent, and with it the parts of its gateways.
func (a *agents) stop(name string) {
	x := a.list[name]
	x.alive = false
	clear(x.uses)
	if !slices.ContainsFunc(slices.Collect(maps.Values(a.list)), func(y *agent) bool { return y.alive && y.d.begun }) {
		a.full = 0 // no agent knows of the earlier ones: the fleet begins again
	}
	a.members()
	a.after(4*second, func() {
		for _, y := range a.list {
			y.d.Forget(name)
		}
	})
}

func (a *agents) connect(x *agent) {
	a.number++
	x.uses[a.number] = 0
	x.d.Connect(a.number)
	a.step(x, false)
}

func (a *agents) disconnect(x *agent, p uint64) {
	delete(x.uses, p)
	a.after(3*second, func() {
		x.d.Gone(p)
		a.step(x, false)
	})
}

// step moves an agent on, and sends what follows from it.
func (a *agents) step(x *agent, say bool) {
	if !x.alive {
		return
	}
	seen := maps.Clone(x.d.adoptedOf)
	changed := x.d.Step(a.now, func(p Plan) bool {
		if a.rng.Float64() < a.pause {
			return false
		}
		x.plan = p
		return true
	})
	for _, p := range slices.Sorted(maps.Keys(x.uses)) { // in the same order in each run
		if by := x.d.Given(p); by != x.uses[p] {
			a.after(a.rng.Int64N(second/2), func() { // the way to a gateway does not lose messages
				if was, is := x.uses[p]; is && x.alive && x.d.Given(p) == by {
					if x.uses[p] = by; was == 0 && x.d.Full(p) {
						a.full += 1 / float64(by)
					}
					a.after(a.rng.Int64N(second/2), func() {
						x.d.Confirm(p, by)
						a.step(x, false)
					})
				}
			})
		}
	}
	if !changed && !say && maps.Equal(seen, x.d.adoptedOf) {
		return
	}
	for _, to := range slices.Sorted(maps.Keys(a.list)) {
		y := a.list[to]
		if to == x.name || !y.alive {
			continue
		}
		s := x.d.StatementFor(to)
		deliver := func() {
			if a.list[to] == y && y.alive {
				y.d.Receive(x.name, s)
				a.step(y, false)
			}
		}
		if a.rng.Float64() >= a.loss {
			a.after(a.delay(a.rng), deliver)
		}
		if a.rng.IntN(10) == 0 {
			a.after(a.rng.Int64N(20*second), deliver)
		}
	}
}

// check holds that gateways never divide more than there is, and that owners count all of it.
func (a *agents) check() {
	sum := 0.0
	for _, x := range a.list {
		for p, by := range x.uses {
			if by == 0 {
				continue
			}
			sum += 1 / float64(by)
			for _, y := range a.list {
				if !y.alive || !y.d.Complete(a.now) || !slices.Contains(y.d.alive, x.name) {
					continue // its owners grant nothing, or it does not know of this agent
				}
				if y.plan.Least == 0 || by < y.plan.Least || !slices.Contains(y.plan.Members, Member{x.name, p}) {
					a.failed = fmt.Sprintf("at %d ms owners do not count a gateway that divides by %d",
						a.now/millisecond, by)
				}
			}
		}
	}
	if a.full > 1+1e-9 {
		a.failed = fmt.Sprintf("at %d ms gateways have begun with %.3f of what is divided", a.now/millisecond, a.full)
	}
	if sum > 1+1e-9 {
		a.failed = fmt.Sprintf("at %d ms gateways have %.3f of what is divided", a.now/millisecond, sum)
	}
}

// playAgents plays agents and gateways that come and go, with messages lost, repeated and late.
func playAgents(seed uint64, without agreed) *agents {
	rng := rand.New(rand.NewPCG(seed, 9))
	a := newAgents(seed, rng.Float64()*.4)
	a.pause, a.without = rng.Float64()*.5, without
	for i := range 1 + rng.IntN(4) {
		a.start(fmt.Sprint("a", i))
	}
	for range 5 + rng.IntN(25) {
		what, pick := rng.IntN(8), rng.IntN(100)
		a.at(rng.Int64N(60*second), func() { a.happens(what, pick) })
	}
	for a.now < 130*second && a.failed == "" {
		a.run(a.now + 20*millisecond)
		a.check()
	}
	return a
}

// TestAgentsDivide: nothing is divided twice, and in the end all gateways have equal parts of all.
func TestAgentsDivide(t *testing.T) {
	for seed := range uint64(300) {
		a := playAgents(seed, 0)
		if a.failed != "" {
			t.Errorf("seed %d: %s", seed, a.failed)
			continue
		}
		n := 0
		for _, x := range a.list {
			n += len(x.uses)
		}
		for _, x := range a.list {
			for _, by := range x.uses {
				if by != n {
					t.Errorf("seed %d: a gateway divides by %d, there are %d", seed, by, n)
				}
			}
		}
	}
}

// TestAgreementNeedsItsRules leaves out each rule, and sees that something breaks.
func TestAgreementNeedsItsRules(t *testing.T) {
	for r := agreedSeen; r < agreedSettle; r <<= 1 {
		broken := false
		for seed := uint64(0); seed < 1000 && !broken; seed++ {
			broken = playAgents(seed, r).failed != ""
		}
		if !broken {
			t.Errorf("without rule %b nothing breaks", r)
		}
	}
	if beginsTooSoon(0) || !beginsTooSoon(agreedSettle) {
		t.Error("an agent has to wait until it knows all others")
	}
}

// beginsTooSoon reports whether a gateway of a new agent c gets half of each bucket, as those of a and b have. It knows
// of b, and not yet of a.
func beginsTooSoon(without agreed) bool {
	c, now, adopt := NewDivision(100*second, "c", 3), int64(100*second), func(Plan) bool { return true }
	c.without = without
	c.SetAgents(now, []string{"b"})
	c.Connect(9)
	b := Statement{Life: 2, Number: 4, Least: 2, Processes: []uint64{8}, Begun: true}
	c.Receive("b", b)
	c.Step(now, adopt)
	b.Seen = Seen{c.mine.Life, c.mine.Number}
	c.Receive("b", b)
	c.Step(now+100*millisecond, adopt)
	return c.Given(9) != 0
}

func (a *agents) happens(what, pick int) {
	names := slices.Sorted(maps.Keys(a.list))
	name := names[pick%len(names)]
	x := a.list[name]
	switch {
	case what == 0 && x.alive && len(names) > 1:
		a.stop(name)
	case what == 1 && !x.alive:
		a.start(name)
	case what == 2:
		a.start(fmt.Sprint("b", a.lives))
	case what == 3 && x.alive && len(x.uses) > 0:
		a.disconnect(x, slices.Sorted(maps.Keys(x.uses))[pick%len(x.uses)])
	case x.alive:
		a.connect(x)
	}
}

// The first gateways begin together, and with full parts; a later gateway begins with an empty part.
func TestFirstGatewaysBeginFull(t *testing.T) {
	a := newAgents(1, .1)
	a.start("a")
	a.start("b")
	for range 2 {
		a.connect(a.list["a"])
		a.connect(a.list["b"])
	}
	begun := func() (n int) {
		for _, x := range a.list {
			for _, by := range x.uses {
				n += min(by, 1)
			}
		}
		return n
	}
	if a.run(9 * second); begun() != 0 {
		t.Errorf("%d have begun after 9 s", begun())
	}
	if a.run(20 * second); begun() != 4 || a.full != 1 {
		t.Errorf("%d have begun after 20 s, with %g", begun(), a.full)
	}
	a.connect(a.list["b"])
	if a.run(40 * second); begun() != 5 || a.full != 1 {
		t.Errorf("%d have begun after 40 s, with %g", begun(), a.full)
	}
}

// The first parts of all gateways are full, whichever agent begins first, and whatever is counted late.
func TestAllFirstPartsAreFull(t *testing.T) {
	for seed := range uint64(40) {
		a := newAgents(seed, 0)
		for i := range 4 {
			a.start(fmt.Sprint("a", i))
			a.connect(a.list[fmt.Sprint("a", i)])
		}
		if a.run(30 * second); a.full < 1-1e-9 {
			t.Errorf("seed %d: gateways have begun with %g", seed, a.full)
		}
	}
}

// An agent that comes to know of the others' gateways later than these has first parts that are full, too.
func TestFirstGatewaysBeginTogether(t *testing.T) {
	statement := func(least int, seen Seen) Statement {
		return Statement{Life: 2, Number: uint64(1 + least), Least: least, Processes: []uint64{8}, Seen: seen, Fresh: true}
	}
	d, adopt := NewDivision(0, "a", 1), func(Plan) bool { return true }
	d.SetAgents(0, []string{"b"})
	d.Connect(7)
	d.Receive("b", statement(0, Seen{}))
	d.Step(second, adopt)
	for now := int64(2 * second); now < 20*second; now += second {
		if d.Receive("b", statement(0, Seen{d.mine.Life, d.mine.Number})); now < firstAfter && d.Plan().Least != 0 {
			t.Errorf("at %d s owners count parts", now/second)
		}
		d.Step(now, adopt)
	}
	if d.Given(7) != 0 {
		t.Fatal("a gateway begins before those of another agent may")
	}
	d.Receive("b", statement(2, Seen{d.mine.Life, d.mine.Number}))
	if d.Step(20*second, adopt); d.Given(7) != 2 || !d.Full(7) {
		t.Errorf("it divides by %d, full %v; want 2, full", d.Given(7), d.Full(7))
	}
}

// Where other sites use the buckets no gateway has a part, nor gets one later. Agents notice that one after another.
// Meanwhile nothing is divided twice.
func TestNoPartsOverSites(t *testing.T) {
	for _, at := range []int64{0, 20 * second} {
		a := newAgents(uint64(at), .1)
		for i := range 3 {
			name := fmt.Sprint("a", i)
			a.start(name)
			a.connect(a.list[name])
			a.at(at+int64(i)*second/3, a.list[name].d.Apart)
		}
		a.at(30*second, func() { a.connect(a.list["a1"]) })
		for a.now < 60*second && a.failed == "" {
			a.run(a.now + 20*millisecond)
			a.check()
		}
		if a.failed != "" || (a.full > 0) != (at > 0) {
			t.Errorf("apart at %d s: %s; %g began full", at/second, a.failed, a.full)
		}
		for _, x := range a.list {
			for _, by := range x.uses {
				if _, has := (Params{Rate: 1e6, Burst: 1e6 * Token}).Part(by); has {
					t.Errorf("apart at %d s: a gateway divides by %d", at/second, by)
				}
			}
		}
	}
}

// TestManyAgentsDivide: 400 gateways of 20 agents agree within seconds.
func TestManyAgentsDivide(t *testing.T) {
	a := newAgents(1, .01)
	for i := range 20 {
		name := fmt.Sprint("a", i)
		a.start(name)
		for range 20 {
			a.connect(a.list[name])
		}
	}
	for a.now < 30*second {
		a.run(a.now + second)
		a.check()
		if slices.Collect(maps.Values(a.list["a7"].uses))[0] == 400 {
			if a.failed != "" {
				t.Error(a.failed)
			}
			t.Logf("after %d s", a.now/second)
			return
		}
	}
	t.Error("they do not agree")
}
