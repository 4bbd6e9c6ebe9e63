package core

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
	"google.golang.org/protobuf/proto"
)

// fleet is agents with a gateway each, on virtual time.
type fleet struct {
	everybody int // of Options
	now       time.Duration
	agents    []*fleetAgent
	random    *rand.Rand
	loss      float64 // part of the packets that are lost, and as many come twice or late
	mail      []mail
	places    map[string]int
	within    time.Duration  // Options.ExactWithin
	cut       string         // an agent or a site that no packets leave or reach
	sites     int            // the agents are of so many sites, in turn; 0: of one
	moved     map[int]string // site of agents that have moved
	log       []admission
	shared    func() int // Options.Shared of an agent; nil: as in an installation
}

// admission is a cost that the gateway of an agent has admitted.
type admission struct {
	at    time.Duration
	of    *fleetAgent
	key   uint64
	cost  float64
	twice map[*fleetAgent]bool // they may have charged it twice
}

type fleetAgent struct {
	*Core
	name     string
	life     int
	dead     bool
	ticks    int
	start    time.Duration
	admitted map[uint64]float64
	claim    map[uint64]float64
	sums     map[uint64]exchange.KeySum // sent to the gateway last
	charged  map[uint64]float64         // of what others have admitted, by the law of drc.Ledger.Hear
	compared map[uint64]float64         // the part of it that comparisons of pools have charged
	refilled map[uint64]float64         // mostly nothing is
}

// hear charges what others have admitted, as a ledger without refill does.
func (a *fleetAgent) hear(k exchange.KeySum) {
	switch was := a.sums[k.Key]; {
	case k.Epoch == was.Epoch: // less than before: an estimate was too high
		a.charged[k.Key] += max(k.Admitted-was.Admitted, min(a.own(k.Key)+k.Own-a.spent(k.Key), 0))
	case was.Epoch == 0:
		a.charged[k.Key] += min(k.Admitted, max(k.Spent, k.Own))
	default: // an owner that returns may count it again
		more := max(0, max(k.Spent, k.Own+a.own(k.Key))-a.spent(k.Key))
		a.charged[k.Key], a.compared[k.Key] = a.charged[k.Key]+more, a.compared[k.Key]+more
	}
	a.sums[k.Key] = k
}

// noteTwice notes that a gateway compares the counts of two owners. What one of them has sent it, the other may receive
// later, as long as that is on its way.
func (f *fleet) noteTwice(a *fleetAgent, k exchange.KeySum) {
	if was := a.sums[k.Key].Epoch; was == 0 || was == k.Epoch {
		return
	}
	for i := len(f.log) - 1; i >= 0 && f.now-f.log[i].at <= f.onTheWay(); i-- {
		if x := &f.log[i]; x.key == k.Key && x.of != a {
			x.twice[a] = true
		}
	}
}

// onTheWay bounds the time until all agents have received a cost, with up to four of ten packets lost. Where gateways
// disagree on who needs a claim, counts are compared while agents that are not alive for others are late.
func (f *fleet) onTheWay() time.Duration {
	if f.shared != nil {
		return 5 * time.Second
	}
	return time.Second
}

// most returns the cost of a key that a gateway may take to be spent.
func (f *fleet) most(a *fleetAgent, key uint64) float64 {
	most, _ := f.truth(key, -1)
	for _, x := range f.agents {
		if f.everybody < len(f.agents) || f.shared != nil {
			most += x.compared[key]
		}
	}
	return most + f.onItsWay(a, key)
}

// onItsWay returns what was on its way to one of two owners when a gateway compared their counts.
func (f *fleet) onItsWay(a *fleetAgent, key uint64) (cost float64) {
	for i := range f.log {
		if x := &f.log[i]; x.key == key && x.twice[a] {
			cost += x.cost
		}
	}
	return cost
}

// spent returns the spent cost of a key as the gateway computes it.
func (a *fleetAgent) spent(key uint64) float64 {
	return a.admitted[key] + a.charged[key] - a.refilled[key]
}

// own is the part of it that the gateway has admitted itself.
func (a *fleetAgent) own(key uint64) float64 {
	if all := a.admitted[key] + a.charged[key]; all > 0 {
		return a.admitted[key] * a.spent(key) / all
	}
	return 0
}

type mail struct {
	at       time.Duration
	from, to int
	life     [2]int
	packet   *gossipv1.Packet
}

func newFleet(n, everybody int, seed uint64) *fleet { return newSites(0, n, everybody, seed) }

// newSites is a fleet whose agents are of so many sites, in turn.
func newSites(sites, n, everybody int, seed uint64) *fleet {
	f := emptyFleet(everybody, seed)
	f.sites = sites
	f.addAgents(n)
	return f
}

// newShared is a fleet with EXACT keys whose agents each have Options.Shared of their own.
func newShared(n, everybody int, seed uint64, shared func() int) *fleet {
	f := emptyFleet(everybody, seed)
	f.shared = shared
	f.addAgents(n)
	return f
}

func emptyFleet(everybody int, seed uint64) *fleet {
	return &fleet{everybody: everybody, now: time.Second, random: rand.New(rand.NewPCG(seed, 1)),
		places: map[string]int{}, moved: map[int]string{}}
}

// site is the site of an agent.
func (f *fleet) site(i int) string {
	if site, is := f.moved[i]; is {
		return site
	}
	if f.sites == 0 {
		return ""
	}
	return fmt.Sprintf("site-%d", i%f.sites)
}

// begin restarts an agent; its gateway lives on and reconnects.
func (f *fleet) begin(i int) {
	a := f.agents[i]
	a.life++
	a.start = f.now
	shared := 0
	if f.shared != nil {
		shared = f.shared()
	}
	a.Core = New(Options{Name: a.name, Incarnation: uint64(a.life), Period: period, T1: 10 * time.Second,
		T2: 15 * time.Second, Everybody: f.everybody, Shared: shared, ExactWithin: f.within, Site: f.site(i)})
	for j, b := range f.agents {
		if j != i {
			a.PeerSite(b.name, f.site(j))
			b.PeerSite(a.name, f.site(i))
			a.PeerAlive(f.at(a), b.name, "", true, schedule.Version)
			b.PeerAlive(f.at(b), a.name, "", true, schedule.Version)
		}
	}
	f.connect(i, a.life > 1)
}

// connect links the gateway of an agent, which then lists what it claims.
func (f *fleet) connect(i int, again bool) {
	a := f.agents[i]
	f.take(a, a.Connected(f.at(a), 1, link.Hello{Version: link.Version, Replica: "gateway of " + a.name, Generation: 1,
		Weight: 1, Again: again}, 0))
	for _, key := range slices.Sorted(maps.Keys(a.admitted)) {
		f.announce(i, key)
	}
}

func (f *fleet) at(a *fleetAgent) time.Duration { return f.now - a.start }

func (f *fleet) take(a *fleetAgent, e Effects) {
	for _, frame := range e.Frames {
		if s, ok := frame.Message.(*exchange.Sums); ok && frame.To == 1 { // another link is one of a test
			if s.Full {
				for key, was := range a.sums {
					was.Claims, was.Active = 0, 0
					a.sums[key] = was
				}
			}
			for _, k := range s.Keys {
				f.noteTwice(a, k)
				was := a.charged[k.Key]
				if a.hear(k); a.charged[k.Key] != was { // it says so, as a filter does
					f.announce(slices.Index(f.agents, a), k.Key)
				}
			}
			for _, key := range s.Gone {
				was := a.sums[key]
				was.Claims, was.Active = 0, 0
				a.sums[key] = was
			}
		}
	}
	if e.GossipSoon {
		f.round(slices.Index(f.agents, a), true)
	}
	if len(e.Close) > 0 { // the agent stood still
		f.connect(slices.Index(f.agents, a), true)
	}
}

// announce has a gateway announce what it admitted and claims.
func (f *fleet) announce(i int, key uint64) {
	a := f.agents[i]
	f.take(a, a.Received(f.at(a), 1, &exchange.Claims{Keys: []exchange.KeyClaim{{Key: key, Claim: a.claim[key],
		Unsaturated: a.claim[key], Admitted: a.admitted[key], Spent: a.spent(key),
		Own: a.own(key), Exact: f.shared != nil}}}))
}

func (f *fleet) admit(i int, key uint64, cost float64) {
	a := f.agents[i]
	a.admitted[key] += cost
	f.log = append(f.log, admission{f.now, a, key, cost, map[*fleetAgent]bool{}})
	f.announce(i, key)
}

func (f *fleet) round(i int, soon bool) {
	a := f.agents[i]
	out, _ := a.Round(f.at(a), soon)
	for _, o := range out {
		to := f.places[o.To]
		if n := proto.Size(o.Packet); n > schedule.MaxPacket {
			panic(fmt.Sprintf("a packet of %d bytes", n))
		}
		times := 1
		switch x := f.random.Float64(); {
		case x < f.loss:
			times = 0
		case x < 2*f.loss:
			times = 2
		}
		for range times {
			m := mail{f.now + time.Millisecond, i, to, [2]int{a.life, f.agents[to].life}, o.Packet}
			if f.random.Float64() < f.loss {
				m.at += time.Duration(f.random.IntN(200)) * time.Millisecond
			}
			f.mail = append(f.mail, m)
		}
	}
}

// run lets time pass in quarters of a period; each is called after every step. Agents tick when they are due.
func (f *fleet) run(d time.Duration, each func()) {
	for end, step := f.now+d, 0; f.now < end; step++ {
		f.now += period / 4
		due := f.mail
		f.mail = nil
		for _, m := range due {
			to, cut := f.agents[m.to], func(i int) bool { return slices.Contains([]string{f.agents[i].name, f.site(i)}, f.cut) }
			switch {
			case to.dead, f.cut != "" && cut(m.to) != cut(m.from):
			case m.at > f.now:
				f.mail = append(f.mail, m)
			case m.life == [2]int{f.agents[m.from].life, to.life}:
				b, err := proto.Marshal(m.packet)
				p := &gossipv1.Packet{}
				if err != nil || proto.Unmarshal(b, p) != nil {
					panic("a packet does not decode")
				}
				_, out := to.ReceivePackets(f.at(to), p)
				f.take(to, out)
			}
		}
		for i, a := range f.agents {
			if (step+i)%2 == 0 && !a.dead && a.Due() <= f.at(a) {
				a.ticks++
				f.take(a, a.Tick(f.at(a)))
				f.round(i, false)
			}
		}
		if each != nil {
			each()
		}
	}
}

// truth returns the cost of a key that all gateways have admitted, and the claims of all but one.
func (f *fleet) truth(key uint64, but int) (admitted, claims float64) {
	for j, b := range f.agents {
		admitted += b.admitted[key]
		if j != but {
			claims += b.claim[key]
		}
	}
	return admitted, claims
}

// wants fails unless each gateway was sent what the others claim, and takes no less than least and no more to be spent
// than was admitted.
func (f *fleet) wants(t interface{ Fatalf(string, ...any) }, what string, least map[uint64]float64, keys ...uint64) {
	for i, a := range f.agents {
		for _, key := range keys {
			_, claims := f.truth(key, i)
			admitted := f.most(a, key)
			if got := a.sums[key].Claims; math.Abs(got-claims) > .01*claims {
				t.Fatalf("%s: gateway %d is told that the others claim %v of key %d, want %v", what, i, got, key, claims)
			}
			if got := a.spent(key); got < least[key]-1e-6 || got > admitted+1e-6 {
				t.Fatalf("%s: gateway %d takes %v of key %d to be spent, want from %v to %v", what, i, got, key, least[key],
					admitted)
			}
		}
	}
}

// all returns the admitted cost of each key over all gateways.
func (f *fleet) all(keys []uint64) map[uint64]float64 {
	out := map[uint64]float64{}
	for _, k := range keys {
		out[k], _ = f.truth(k, -1)
	}
	return out
}

// Agents that begin again, with gateways that live on, are registered again.
func TestAgentsThatBeginAgain(t *testing.T) {
	for _, everybody := range []int{1, 16} {
		testAgentsThatBeginAgain(t, everybody)
	}
}

func testAgentsThatBeginAgain(t *testing.T, everybody int) {
	f := newFleet(4, everybody, 1)
	keys := []uint64{1, 2, 3, 4, 5, 6, 7, 8}
	for i := range f.agents {
		for _, k := range keys {
			f.agents[i].claim[k] = float64(i + 1)
			f.admit(i, k, 3)
		}
	}
	f.run(time.Second, nil)
	for i := range f.agents {
		f.begin(i)
		f.run(time.Second, nil)
		for j := range f.agents {
			for _, k := range keys {
				f.agents[j].claim[k]++
				f.admit(j, k, 1)
			}
		}
		f.run(time.Second, nil)
	}
	for i, a := range f.agents {
		for _, k := range keys {
			want := 0.0
			for j, b := range f.agents {
				if j != i {
					want += b.claim[k]
				}
			}
			if got := a.sums[k].Claims; math.Abs(got-want) > .01*want {
				t.Errorf("gateway %d is told claims %v of key %d, want %v", i, got, k, want)
			}
		}
	}
}

// Agents that are restarted in turn find the others one by one. What those have spent was charged before: it is no
// news, whichever agent is found last.
func TestRestartedAgentsChargeNothingTwice(t *testing.T) {
	for _, everybody := range []int{1, 16} {
		f, keys := newFleet(4, everybody, 1), []uint64{1, 2, 3, 4, 5, 6, 7, 8}
		for i := range f.agents {
			for _, k := range keys {
				f.admit(i, k, 3)
			}
			f.run(500*time.Millisecond, nil)
		}
		check := func() {
			for i, a := range f.agents {
				for _, k := range keys {
					if most, _ := f.truth(k, -1); a.spent(k) > most+1e-6 {
						t.Fatalf("up to %d agents tell all: gateway %d takes %v of key %d to be spent, %v were admitted", everybody,
							i, a.spent(k), k, most)
					}
				}
			}
		}
		for i := range f.agents {
			f.begin(i)
			f.run(200*time.Millisecond, check)
		}
		f.run(time.Second, check)
		f.wants(t, "after quiet", f.all(keys), keys...)
	}
}

// The owner of a key crashes with its gateway: the others reach each other again through the next owner, and count the
// lost gateway's claim until T2.
func TestAnOwnerCrashes(t *testing.T) {
	const key = 1
	f := newFleet(4, 1, 1)
	for i, a := range f.agents {
		a.claim[key] = float64(i + 1)
		f.admit(i, key, 3)
	}
	f.run(time.Second, nil)
	lost := f.owner()
	f.agents[lost].dead = true
	expect := func(what string, ofLost float64) {
		t.Helper()
		for i, a := range f.agents {
			if a.dead {
				continue
			}
			want := ofLost
			for j, b := range f.agents {
				if j != i && j != lost {
					want += b.claim[key]
				}
			}
			if got := a.sums[key].Claims; math.Abs(got-want) > .01*want {
				t.Errorf("%s: gateway %d is told claims of %v, want %v", what, i, got, want)
			}
		}
	}
	f.run(2*time.Second, nil)
	expect("the owner is silent", f.agents[lost].claim[key])
	for _, a := range f.agents {
		if !a.dead {
			a.PeerFailed(f.at(a), f.agents[lost].name)
		}
	}
	f.run(listens, nil)
	for i, a := range f.agents {
		if !a.dead {
			a.claim[key] += 5
			f.admit(i, key, 1)
		}
	}
	f.run(200*time.Millisecond, nil)
	expect("another is the owner", f.agents[lost].claim[key])
	f.run(15*time.Second, nil)
	expect("after T2", 0)
}

// listens is longer than a new owner listens.
const listens = 500 * time.Millisecond

// withdraw has a gateway forget a key.
func (f *fleet) withdraw(i int, key uint64) {
	a := f.agents[i]
	f.take(a, a.Received(f.at(a), 1, &exchange.Claims{Withdrawn: []uint64{key}}))
	delete(a.sums, key)
	delete(a.charged, key)
}

// owner is the agent that knows of one key, the only one.
func (f *fleet) owner() int {
	return slices.IndexFunc(f.agents, func(a *fleetAgent) bool { return a.Status(f.at(a)).Aggregation.Owned == 1 })
}

// What an agent sends follows the traffic of its gateways, not the number of agents: three
// agents use each key, and each agent uses 30 of them.
func TestCostFollowsTraffic(t *testing.T) {
	const users, keysOfAgent = 3, 30
	perAgent := func(n int) (packets, bytes, records float64) {
		f := newFleet(n, 0, 7)
		use := func() {
			for i := range n {
				for k := range keysOfAgent {
					key := uint64((i/users)*keysOfAgent + k + 1)
					f.agents[i].claim[key] = 1 + f.random.Float64()
					if f.random.Float64() < .05 { // a request/s, by periods
						f.admit(i, key, 1)
					}
				}
			}
		}
		for range 20 {
			use()
			f.run(period, nil)
		}
		before := make([]schedule.Traffic, n)
		for i, a := range f.agents {
			before[i] = a.Status(f.at(a)).Traffic
		}
		const seconds = 1
		for range seconds * 20 {
			use()
			f.run(period, nil)
		}
		for i, a := range f.agents {
			s := a.Status(f.at(a)).Traffic
			packets += float64(s.Packets-before[i].Packets) / seconds / float64(n)
			bytes += float64(s.Bytes-before[i].Bytes) / seconds / float64(n)
			records += float64(s.Records-before[i].Records) / seconds / float64(n)
		}
		return packets, bytes, records
	}
	var packets30, records30 float64
	for _, n := range []int{10, 30, 100} {
		packets, bytes, records := perAgent(n)
		t.Logf("%d agents: %.0f packets/s, %.1f kB/s, %.0f records/s for each", n, packets, bytes/1000, records)
		if n == 30 {
			packets30, records30 = packets, records
		}
		if n == 100 && (records > 1.4*records30 || packets > 2*packets30) {
			t.Errorf("100 agents: %.0f records/s in %.0f packets/s, with 30 agents %.0f in %.0f", records, packets, records30,
				packets30)
		}
	}
}
