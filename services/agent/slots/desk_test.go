package slots

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/slots"
	"github.com/titrate/titrate/control/slots/keys"
	"github.com/titrate/titrate/services/agent/owners"
)

// fleet is some agents with a gateway each on virtual time, whose packets may be lost.
type fleet struct {
	t      *testing.T
	r      *rand.Rand
	now    time.Duration
	queue  agenda
	serial int
	loss   float64
	limit  int64

	agents []*agent
	flying map[uint64]int64 // by key
	cut    map[uint64]int64 // of them, at gateways whose leases have run out meanwhile
	most   int64            // flying − cut − limit
	got    int
	no     int
	lives  uint64
}

type agent struct {
	f    *fleet
	name string
	life uint64
	d    *Desk
	down bool
	left bool            // in order
	gone map[string]bool // agents that it does not reach
	view uint64
	g    *gateway

	owners exchange.Owners // as this agent knows them
	names  map[uint64]string
	wake   time.Duration
}

type gateway struct {
	a          *agent
	f          *fleet
	number     uint64
	s          *keys.Store[*request]
	dead       bool
	linked     bool
	registered uint64
	wake       time.Duration
	open       map[*request]bool
	lapses     uint64
}

type request struct {
	key  uint64
	stay time.Duration
	w    keys.Waiter[*request]
	cut  bool
}

type appointment struct {
	at time.Duration
	n  int
	f  func()
}

type agenda []appointment

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].n < a[j].n
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(appointment)) }
func (a *agenda) Pop() any {
	x := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return x
}

func (f *fleet) after(d time.Duration, do func()) {
	f.serial++
	heap.Push(&f.queue, appointment{f.now + d, f.serial, do})
}

func (f *fleet) run(until time.Duration) {
	for len(f.queue) > 0 && f.queue[0].at <= until {
		a := heap.Pop(&f.queue).(appointment)
		f.now = a.at
		a.f()
	}
	f.now = until
}

func newFleet(t *testing.T, seed uint64, n int, limit int64) *fleet {
	f := &fleet{t: t, r: rand.New(rand.NewPCG(seed, 2)), limit: limit, now: time.Second, flying: map[uint64]int64{},
		cut: map[uint64]int64{}}
	for i := range n {
		a := &agent{f: f, name: fmt.Sprint("agent-", i), gone: map[string]bool{}}
		f.agents = append(f.agents, a)
		f.begin(a)
		f.startGateway(a)
	}
	f.changed()
	return f
}

func name(key uint64) exchange.KeyName {
	return exchange.KeyName{Tenant: "acme", Limit: "flight", Client: fmt.Sprint(key)}
}

// begin starts the process of an agent.
func (f *fleet) begin(a *agent) {
	f.lives++
	a.life, a.down, a.left = f.lives<<32, false, false
	a.d = New(Options{Agent: a.name, Life: a.life, Revision: func() int64 { return 1 },
		Owner: func(key uint64) string { return a.names[a.owners.Of(key)] },
		Limit: func(n *exchange.KeyName) (key uint64, limit int64, ok bool) {
			_, err := fmt.Sscan(n.Client, &key)
			return key, f.limit, err == nil
		}})
}

func (f *fleet) list() (owners exchange.Owners, names map[uint64]string) {
	names = map[uint64]string{}
	for _, a := range f.agents {
		if !a.down {
			names[a.life] = a.name
			owners.List = append(owners.List, exchange.Owner{Hash: exchange.OwnerHash(a.name), Life: a.life})
		}
	}
	return owners, names
}

// changed gives all agents and, soon after, their gateways the agents of now.
func (f *fleet) changed() {
	owners, names := f.list()
	digest := uint64(0) // of the names, as in production
	for _, o := range owners.List {
		digest += exchange.OwnerScore(o.Hash, 1)
	}
	f.lives++
	owners.View = f.lives
	for _, a := range f.agents {
		if a.down {
			continue
		}
		a.view, a.owners, a.names = owners.View, owners, names
		a.d.SetPart(f.now, len(names), f.all())
		a.d.Changed(f.now, names, digest)
		a.flush()
		f.after(100*time.Millisecond+time.Duration(f.r.IntN(50))*time.Millisecond, func() {
			if a.view == owners.View && !a.down && !a.g.dead && a.g.linked {
				a.g.s.SetOwners(int64(f.now), owners)
				a.g.poll()
			}
		})
	}
	f.settle(owners)
}

// all returns the number of agents that are alive or have failed. An agent that has left in order does not count.
func (f *fleet) all() (n int) {
	for _, a := range f.agents {
		if !a.left {
			n++
		}
	}
	return n
}

// settle notes that all gateways of the agents in a list have registered. A gateway whose agent has gone is in no list,
// and an agent that has begun anew does not know the gateway that still looks for it.
func (f *fleet) settle(list exchange.Owners) {
	in := map[uint64]bool{}
	for _, o := range list.List {
		in[o.Life] = true
	}
	for _, a := range f.agents {
		switch {
		case !a.down && a.view != list.View:
			return
		case in[a.life] && (a.down || a.g.linked && !a.g.dead && a.g.registered != list.View):
			f.after(20*time.Millisecond, func() { f.settle(list) })
			return
		}
	}
	for _, a := range f.agents {
		if !a.down {
			a.d.Settled(f.now)
			a.flush()
		}
	}
}

// flush sends what an agent has to send.
func (a *agent) flush() {
	if a.down {
		return
	}
	f := a.f
	answers, packets := a.d.Take()
	for process, list := range answers {
		for _, m := range list {
			f.after(20*time.Microsecond, func() {
				if g := a.g; g.number == process && !g.dead && !a.down {
					g.note(g.s.Answer(int64(f.now), m, nil))
				}
			})
		}
	}
	for _, to := range f.agents {
		p := packets[to.name]
		if p == nil || a.gone[to.name] || f.r.Float64() < f.loss {
			continue
		}
		life := to.life
		f.after(time.Duration(200+f.r.IntN(100))*time.Microsecond, func() {
			if to.down || to.life != life || to.gone[a.name] { // packets are sealed for one process
				return
			}
			to.d.Receive(f.now, a.name, p)
			to.flush()
		})
	}
	if due := a.d.Due(); due != 0 && (a.wake <= f.now || due < a.wake) {
		a.wake = max(due, f.now+1)
		d := a.d
		f.after(a.wake-f.now, func() {
			if !a.down && a.d == d {
				d.Tick(f.now)
				a.flush()
			}
		})
	}
}

func (f *fleet) startGateway(a *agent) {
	f.lives++
	g := &gateway{a: a, f: f, number: f.lives, open: map[*request]bool{}}
	g.s = keys.New[*request](f.lives<<40, func() { f.after(0, g.poll) })
	a.g = g
	f.after(0, g.tick)
	g.link()
}

// link links a gateway to its agent, if that runs.
func (g *gateway) link() {
	if !g.dead && !g.a.down {
		g.linked = true
		g.s.Link(true)
		g.s.SetOwners(int64(g.f.now), g.a.owners)
	}
}

// end ends an agent, which comes back. Its gateway finds the new process within a second.
func (f *fleet) end(a *agent, noticed time.Duration) {
	a.down, a.g.linked = true, false
	a.g.s.Link(false)
	f.after(noticed, f.changed)
	f.after(noticed+time.Duration(f.r.IntN(4000))*time.Millisecond, func() {
		f.begin(a)
		f.changed()
		f.after(time.Duration(f.r.IntN(1000))*time.Millisecond, func() { a.g.link() })
	})
}

func (g *gateway) tick() {
	if !g.dead {
		g.note(g.s.Expire(int64(g.f.now), nil))
		g.f.after(2*time.Millisecond, g.tick)
	}
}

func (g *gateway) poll() {
	f, a := g.f, g.a
	if g.dead {
		return
	}
	asks, next, registered := g.s.Poll(int64(f.now), nil)
	g.lapsed()
	if registered != 0 {
		g.registered = registered
	}
	for _, m := range asks {
		f.after(20*time.Microsecond, func() {
			if !a.down {
				a.d.Ask(f.now, g.number, m)
				a.flush()
			}
		})
	}
	if at := time.Duration(next); at != 0 && (g.wake <= f.now || at < g.wake) {
		g.wake = max(at, f.now+1)
		f.after(g.wake-f.now, g.poll)
	}
}

// lapsed marks what was in flight when a lease ran out.
func (g *gateway) lapsed() {
	n := g.s.Stats().Lapses
	if n == g.lapses {
		return
	}
	g.lapses = n
	for r := range g.open {
		if !r.cut {
			r.cut = true
			g.f.cut[r.key]++
		}
	}
}

func (g *gateway) note(ended []keys.Ended[*request]) {
	g.lapsed()
	for _, e := range ended {
		if e.Outcome == slots.Admitted {
			g.start(e.Waiter.Of)
		} else {
			g.f.no++
		}
	}
	g.poll()
}

func (g *gateway) come(key uint64, stay time.Duration) {
	f := g.f
	if g.dead {
		return
	}
	r := &request{key: key, stay: stay}
	r.w.Of = r
	n := keys.Name{Key: key, Rest: key, KeyName: name(key)}
	_, out := g.s.Try(int64(f.now), &n)
	if out == slots.Waits {
		out = g.s.Join(int64(f.now), &n, &r.w)
	}
	g.lapsed()
	switch out {
	case slots.Admitted:
		g.start(r)
	case slots.Refused, slots.CutOff:
		f.no++
	}
}

func (g *gateway) start(r *request) {
	f := g.f
	f.got++
	f.flying[r.key]++
	f.most = max(f.most, f.flying[r.key]-f.cut[r.key]-f.limit)
	g.open[r] = true
	f.after(r.stay, func() { g.end(r) })
}

func (g *gateway) end(r *request) {
	if !g.open[r] {
		return
	}
	delete(g.open, r)
	g.f.flying[r.key]--
	if r.cut {
		g.f.cut[r.key]--
	}
	if !g.dead {
		g.note(g.s.Free(int64(g.f.now), r.key, nil))
	}
}

func (f *fleet) load(until time.Duration, perSecond float64, stay time.Duration) {
	gap := time.Duration(f.r.ExpFloat64() / perSecond * 1e9)
	if f.now+gap > until {
		return
	}
	f.after(gap, func() {
		a := f.agents[f.r.IntN(len(f.agents))]
		a.g.come(uint64(f.r.IntN(8)+1)*0x1234567, time.Duration(f.r.ExpFloat64()*float64(stay)))
		f.load(until, perSecond, stay)
	})
}

func (f *fleet) fault() {
	a := f.agents[f.r.IntN(len(f.agents))]
	switch f.r.IntN(4) {
	case 0: // kill -9 of the gateway
		g := a.g
		g.dead = true
		for r := range g.open {
			g.end(r)
		}
		f.startGateway(a)
	case 1: // kill -9 of the agent, which comes back
		if a.down {
			return
		}
		f.end(a, 2*time.Second+time.Duration(f.r.IntN(800))*time.Millisecond)
	case 2: // packets between two agents are lost
		b := f.agents[f.r.IntN(len(f.agents))]
		a.gone[b.name], b.gone[a.name] = true, true
		f.after(time.Duration(f.r.IntN(6000))*time.Millisecond, func() { a.gone[b.name], b.gone[a.name] = false, false })
	case 3: // the agent ends in order
		if a.down {
			return
		}
		a.left = true
		f.end(a, time.Duration(f.r.IntN(100))*time.Millisecond)
	}
}

// out returns how many slots gateways have, by the owners, and by the gateways.
func (f *fleet) out() (owners, gateways int) {
	for _, a := range f.agents {
		owners += a.d.Stats().Out
		gateways += a.g.s.Stats().Slots
	}
	return owners, gateways
}

func TestFleet(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 12
	}
	for seed := range seeds {
		f := newFleet(t, seed, 3, 5)
		if seed%3 == 2 {
			f.loss = .05
		}
		until := f.now + 40*time.Second
		f.load(until, 150, 300*time.Millisecond)
		if seed > 0 {
			for range f.r.IntN(6) + 1 {
				f.after(5*time.Second+time.Duration(f.r.IntN(30000))*time.Millisecond, f.fault)
			}
		}
		f.run(until + 20*time.Second)
		if owners, gateways := f.out(); f.most > 0 || owners != 0 || gateways != 0 || f.got == 0 {
			t.Fatalf("seed %d: %d above the limit; slots out: %d by owners, %d by gateways; %d started, %d not",
				seed, f.most, owners, gateways, f.got, f.no)
		}
		if seed < 3 {
			t.Logf("seed %d: %d started, %d not", seed, f.got, f.no)
		}
	}
}

// A message that no correct gateway sends is dropped and counted.
func TestDropped(t *testing.T) {
	f := newFleet(t, 1, 1, 5)
	a := f.agents[0]
	const key = 7
	ask := func(n exchange.KeyName, s slots.Ask) {
		a.d.Ask(f.now, 1, &exchange.SlotAsks{Owner: a.life, Sent: 1, List: []exchange.SlotAsk{{Key: key, KeyName: n, Ask: s}}})
	}
	ask(name(key), slots.Ask{Session: 1, Number: 1, Register: true, Want: -1})
	ask(name(8), slots.Ask{Session: 1, Number: 1, Register: true, Want: 1})
	answers, _ := a.d.Take()
	if list := answers[1][0].List; len(list) != 1 || !list[0].Full || list[0].Short == 0 || list[0].Session != 1 {
		t.Errorf("answers to a key that is unknown: %+v", list)
	}
	ask(name(8), slots.Ask{Session: 1, Number: 1, Register: true, Brought: 1})
	if answers, _ := a.d.Take(); len(answers[1][0].List) != 0 {
		t.Errorf("answers to a gateway that has slots: %+v", answers[1][0].List)
	}
	a.d.Ask(f.now, 1, &exchange.SlotAsks{Owner: 99})
	if s := a.d.Stats(); s.Dropped[owners.Unusable] != 1 || s.Dropped[owners.Unknown] != 2 || s.Dropped[owners.Astray] != 1 || s.Keys != 0 {
		t.Errorf("%+v", s)
	}
}

// An agent leaves in order while its gateway has all slots of a key. The next owner of the key knows nothing of that
// gateway, which goes on starting requests until its lease has run out: it grants nothing before.
func TestAnAgentLeavesUnderLoad(t *testing.T) {
	f := newFleet(t, 1, 3, 20)
	f.run(10 * time.Second)
	for i := range 3 {
		key := uint64(1)
		for f.agents[0].d.o.Owner(key) != f.agents[i].name {
			key++
		}
		leaving, other := f.agents[i], f.agents[(i+1)%3]
		until := f.now + 12*time.Second
		f.loadOf(leaving, key, until, 500)
		f.run(f.now + 2*time.Second)
		f.loadOf(other, key, until, 500)
		f.run(f.now + 2*time.Second)
		leaving.left = true
		f.end(leaving, 50*time.Millisecond)
		f.run(until + 10*time.Second)
		if f.most > 0 {
			t.Fatalf("%s leaves: %d above the limit", leaving.name, f.most)
		}
	}
}

// loadOf has the requests of one key come to the gateway of an agent.
func (f *fleet) loadOf(a *agent, key uint64, until time.Duration, perSecond float64) {
	if f.now < until {
		a.g.come(key, 100*time.Millisecond)
		f.after(time.Duration(f.r.ExpFloat64()/perSecond*1e9), func() { f.loadOf(a, key, until, perSecond) })
	}
}

// A limit whose clients' names are invented leaves room for other limits.
func TestRoomIsDivided(t *testing.T) {
	f := newFleet(t, 1, 1, 5)
	a := f.agents[0]
	register := func(key uint64, limit string) {
		n := name(key)
		n.Limit = limit
		a.d.Ask(f.now, 1, &exchange.SlotAsks{Owner: a.life, Sent: 1, List: []exchange.SlotAsk{{Key: key, KeyName: n,
			Ask: slots.Ask{Session: 1, Number: 1, Register: true, Want: 1, Patience: 1}}}})
	}
	for key := range uint64(MaxKeys / 2) {
		register(key+1, "invented")
	}
	if s := a.d.Stats(); s.Keys > MaxKeys/2 || s.Dropped[owners.Crowded] == 0 {
		t.Errorf("%+v", s)
	}
	before := a.d.Stats().Keys
	register(MaxKeys, "other")
	if s := a.d.Stats(); s.Keys != before+1 {
		t.Errorf("another limit has no room: %+v", s)
	}
}
