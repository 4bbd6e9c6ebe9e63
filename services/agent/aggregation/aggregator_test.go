package aggregation

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/delivery"
	"pgregory.net/rapid"
)

const (
	ms      = time.Millisecond
	promise = 50 * ms
)

// world is one aggregator with a clock that the test moves.
type world struct {
	*Aggregator
	now time.Duration
}

func newWorld() *world {
	w := &world{Aggregator: New(Options{Incarnation: 1000, MaxKeys: 1 << 16}), now: time.Second}
	w.Connect(w.now, "a", 1, 1)
	return w
}

// stateOf makes a state of one key with a rising sequence.
func stateOf(name string, seq uint64, k *gossipv1.KeyClaim) *gossipv1.Replica {
	r := &gossipv1.Replica{Name: name, Generation: 1, Seq: seq, Weight: 1}
	if k != nil {
		r.Keys = []*gossipv1.KeyClaim{k}
	}
	return r
}

func (w *world) hear(r ...*gossipv1.Replica) { w.as("other", 1, r...) }

// keep lets time pass in periods while the named replicas go on speaking.
func (w *world) keep(d time.Duration, names ...string) {
	for end := w.now + d; w.now < end; {
		w.now += promise
		for _, n := range names {
			w.hear(&gossipv1.Replica{Name: n, Generation: 1, Weight: 1})
		}
		w.Heads(w.now)
		w.Advance(w.now)
		w.sums()
		w.Sweep(w.now)
	}
}

// state returns all claims of this agent's gateways, as it would send them to another agent.
func (w *world) state() []*gossipv1.Replica {
	m := &gossipv1.Packet{Replicas: w.Heads(w.now)}
	for _, o := range w.sortedLocals() {
		for _, k := range o.keys.keys {
			w.Put(w.now, m, "other", delivery.Taken{Item: delivery.Item{Key: k, From: o.number, Kind: delivery.Claim}})
		}
	}
	return m.Replicas
}

// sums returns all sums that gateway a is sent.
func (w *world) sums() *exchange.Sums {
	s, _ := w.Aggregator.Sums(w.now, "a", 0)
	return s
}

func (w *world) sum(k uint64) (exchange.KeySum, bool) {
	for _, s := range w.sums().Keys {
		if s.Key == k {
			s.Epoch = 0
			return s, true
		}
	}
	return exchange.KeySum{}, false
}

func (w *world) expect(t *testing.T, what string, replicas int, isolation exchange.Isolation) {
	t.Helper()
	s := w.sums()
	if s.Replicas != replicas || s.Isolation != isolation {
		t.Errorf("%s: %d replicas, isolation %d, want %d and %d", what, s.Replicas, s.Isolation, replicas, isolation)
	}
}

func TestSumsLeaveOutTheAskingReplica(t *testing.T) {
	w := newWorld()
	w.Connect(w.now, "sibling", 1, 1)
	claim := func(k float64) *exchange.Claims {
		return &exchange.Claims{
			Keys:  []exchange.KeyClaim{{Key: 7, Claim: k, Active: 1, Admitted: 10 * k, Spent: 10 * k, Own: 10 * k}},
			Flows: []exchange.FlowClaim{{Key: 9, Claim: k, Unsaturated: k}},
		}
	}
	w.Announce(w.now, "a", 1, claim(100))
	w.Announce(w.now, "sibling", 1, claim(1))
	w.hear(stateOf("b", 1, &gossipv1.KeyClaim{Key: 7, Claim: 2, Admitted: 20, Spent: 20, Own: 20}))
	s, _ := w.sum(7)
	if want := (exchange.KeySum{Key: 7, Admitted: 30, Claims: 3, Active: 1, Unsaturated: 2,
		Spent: 20, Own: 30}); s != want {
		t.Errorf("got %+v, want %+v", s, want)
	}
	all := w.sums()
	if len(all.Flows) != 1 || all.Flows[0] != (exchange.FlowSum{Key: 9, Claims: 1, Unsaturated: 1}) {
		t.Errorf("flows %+v", all.Flows)
	}
	if all.Replicas != 3 || all.TotalWeight != 3 || all.Weight != 1 {
		t.Errorf("membership %+v", all)
	}
}

// What one aggregator gossips, another adds up the same way.
func TestOutgoingIsHeard(t *testing.T) {
	w := newWorld()
	w.Announce(w.now, "a", 1, &exchange.Claims{Keys: []exchange.KeyClaim{{Key: 1, Claim: 2.5, Active: 1, Admitted: 8,
		Spent: 4, Own: 4}},
		Flows: []exchange.FlowClaim{{Key: 2, Claim: 3, Unsaturated: 3}}})
	there := New(Options{Incarnation: 5})
	there.Connect(0, "z", 1, 1)
	there.Receive(0, Sender{Agent: "other", Life: 1, Promise: promise}, w.state())
	s, _ := there.Sums(0, "z", 0)
	if len(s.Keys) != 1 || s.Keys[0].Claims != 2.5 || s.Keys[0].Active != 1 || s.Keys[0].Admitted != 4 ||
		s.Keys[0].Spent != 4 {
		t.Errorf("keys %+v: of what was admitted before, only what is still spent counts", s.Keys)
	}
	if len(s.Flows) != 1 || s.Flows[0] != (exchange.FlowSum{Key: 2, Claims: 3, Unsaturated: 3}) {
		t.Errorf("flows %+v", s.Flows)
	}
	w.Announce(w.now, "a", 1, &exchange.Claims{Withdrawn: []uint64{1, 2}})
	there.Receive(0, Sender{Agent: "other", Life: 1, Promise: promise}, w.state())
	if s, _ := there.Sums(0, "z", 0); len(s.Keys)+len(s.Flows) != 0 {
		t.Errorf("withdrawn, yet %+v %+v", s.Keys, s.Flows)
	}
}

func TestCrashIsCountedDrainIsNot(t *testing.T) {
	w := newWorld()
	claim := func(name string) *gossipv1.Replica {
		return stateOf(name, 1, &gossipv1.KeyClaim{Key: 7, Claim: 10, Active: 1, Admitted: 5, Spent: 5, Own: 5})
	}
	w.keep(time.Second, "b", "c", "d")
	w.hear(claim("b"), claim("c"))
	if s, _ := w.sum(7); s.Claims != 20 {
		t.Fatalf("claims %v, want 20", s.Claims)
	}
	gone := claim("c")
	gone.Drained = true
	w.hear(gone) // in order
	if s, _ := w.sum(7); s.Claims != 10 || s.Admitted != 10 {
		t.Errorf("after a drain: %+v, want claims 10, admitted 10", s)
	}
	w.expect(t, "drained", 3, exchange.Connected)
	w.keep(10*time.Second, "d") // b crashed
	s, _ := w.sum(7)
	if s.Claims != 10 || math.Abs(s.Admitted-(10+100)) > 3 {
		t.Errorf("10 s after a crash: %+v, want its last claim, and about 110 admitted", s)
	}
	w.expect(t, "crashed, before T2", 3, exchange.Connected)
	w.keep(6*time.Second, "d")
	if s, ok := w.sum(7); ok {
		t.Errorf("beyond T2: %+v, want no claim", s)
	}
	w.expect(t, "crashed, beyond T2", 2, exchange.Connected)
}

func TestIsolation(t *testing.T) {
	w := newWorld()
	w.keep(time.Second, "b", "c")
	w.expect(t, "whole", 3, exchange.Connected)
	w.keep(time.Second, "b")
	w.expect(t, "one silent", 3, exchange.Connected)
	w.keep(time.Second)
	w.expect(t, "cut off", 3, exchange.Frozen)
	w.keep(30 * time.Second)
	w.expect(t, "cut off for longer than T1 and T2", 3, exchange.Split)
	w.keep(100*ms, "b")
	w.expect(t, "one is back", 3, exchange.Connected)
	w.keep(20*time.Second, "b")
	w.expect(t, "the other never is", 2, exchange.Connected)
}

// A pod that is replaced has a new name: its packets must end the isolation.
func TestIsolationEndsWithNewMembers(t *testing.T) {
	w := newWorld()
	w.keep(time.Second, "b")
	w.keep(exchange.DefaultSplitAfter + 500*ms)
	w.expect(t, "cut off", 2, exchange.Split)
	w.keep(200*ms, "b2")
	w.expect(t, "replaced", 3, exchange.Connected)
	w.keep(40*time.Second, "b2")
	w.expect(t, "settled", 2, exchange.Connected)
}

func TestCoordinatorSettlesMembership(t *testing.T) {
	w := newWorld()
	w.SetMembers(w.now, []Member{{"a", 1}, {"b", 3}, {"never", 2}}, time.Hour)
	w.keep(time.Second, "b", "unknown")
	s := w.sums()
	if s.Replicas != 3 || s.TotalWeight != 6 || s.Isolation != exchange.Connected {
		t.Errorf("%+v", s)
	}
	w.keep(time.Second)
	w.expect(t, "b is cut off", 3, exchange.Frozen)
	w.SetMembers(w.now, []Member{{"a", 1}}, time.Hour)
	w.expect(t, "the coordinator says that b is gone", 1, exchange.Connected)
}

// A new leader shares before all agents have found it: a gateway that is left out but still sends keeps its part.
func TestANewLeaderKnowsNotAll(t *testing.T) {
	w := newWorld()
	w.SetMembers(w.now, []Member{{"a", 1}, {"b", 1}, {"c", 1}}, time.Hour)
	w.keep(time.Second, "b", "c")
	w.SetMembers(w.now, []Member{{"a", 1}}, time.Hour)
	w.keep(time.Second, "b")
	w.expect(t, "b is heard, c is not", 2, exchange.Connected)
	w.SetMembers(w.now, []Member{{"a", 1}, {"b", 1}, {"c", 1}}, time.Hour)
	w.keep(100*ms, "b", "c")
	w.expect(t, "the leader knows all", 3, exchange.Connected)
}

func TestRestarts(t *testing.T) {
	w := newWorld()
	say := func(a float64) {
		w.Announce(w.now, "a", 1, &exchange.Claims{Keys: []exchange.KeyClaim{{Key: 7, Claim: 1, Active: 1, Admitted: a,
			Spent: a, Own: a}}})
	}
	admitted := func() float64 { return w.state()[0].Keys[0].Admitted }
	say(10)
	say(8) // a refund
	if got := admitted(); got != 8 {
		t.Errorf("a refund: %v, want 8", got)
	}
	w.Announce(w.now, "a", 1, &exchange.Claims{Withdrawn: []uint64{7}})
	say(2) // the filter forgot the key and starts over
	if got := admitted(); got != 10 {
		t.Errorf("started over: %v, want 10", got)
	}
	w.hear(stateOf("b", 9, &gossipv1.KeyClaim{Key: 7, Claim: 4, Active: 1, Admitted: 5, Spent: 5, Own: 5}))
	w.hear(&gossipv1.Replica{Name: "b", Generation: 2, Weight: 1}) // says nothing yet
	if s, _ := w.sum(7); s.Claims != 0 || s.Admitted != 5 {
		t.Errorf("restarted peer: %+v, want its count and no claim", s)
	}
	w.hear(&gossipv1.Replica{Name: "b", Generation: 2, Seq: 1, Weight: 1, Keys: []*gossipv1.KeyClaim{{Key: 7, Claim: 3,
		Admitted: 1}}})
	if s, _ := w.sum(7); s.Claims != 3 || s.Admitted != 6 {
		t.Errorf("restarted peer: %+v, want claim 3 and 6 admitted", s)
	}
}

func TestLostGatewayIsHeldDrainedIsNot(t *testing.T) {
	w := newWorld()
	w.Connect(w.now, "sibling", 1, 1)
	w.Announce(w.now, "sibling", 1, &exchange.Claims{Keys: []exchange.KeyClaim{{Key: 7, Claim: 4, Active: 1}}})
	w.Disconnect(w.now, "sibling", 1)
	if s, _ := w.sum(7); s.Claims != 4 {
		t.Errorf("lost: claims %v, want 4", s.Claims)
	}
	if out := w.Heads(w.now); len(out) != 1 || out[0].Name != "a" {
		t.Errorf("a lost replica is listed: %v", out)
	}
	w.Exit(w.now, "sibling", 1)
	if s, ok := w.sum(7); ok {
		t.Errorf("drained: %+v, want nothing", s)
	}
	w.expect(t, "drained", 1, exchange.Connected)
	w.now += Linger / 2
	if out := w.Heads(w.now); len(out) != 2 {
		t.Errorf("others must hear of the drain: %v", out)
	}
}

// A claim stands until it is withdrawn, however long nothing is said of it; on a new link
// the filter lists all that stands.
func TestUnlistedClaimIsWithdrawn(t *testing.T) {
	w := newWorld()
	w.Connect(w.now, "sibling", 1, 1)
	claims := &exchange.Claims{Keys: []exchange.KeyClaim{{Key: 7, Claim: 4, Active: 1}, {Key: 8, Spent: 2, Own: 2}}}
	w.Announce(w.now, "sibling", 1, claims)
	w.keep(10 * unlisted)
	if s, ok := w.sum(7); !ok || s.Claims != 4 {
		t.Errorf("%+v, want the claim of a filter that says nothing", s)
	}
	if s, ok := w.sum(8); !ok || s.Spent != 2 {
		t.Errorf("%+v, want what is spent", s)
	}
	w.Connect(w.now, "sibling", 1, 1)
	w.keep(unlisted + 2*time.Second)
	if s, ok := w.sum(7); ok {
		t.Errorf("%+v, want no claim", s)
	}
	if w.Contended() {
		t.Error("contended")
	}
}

func TestNoisyInput(t *testing.T) {
	w := newWorld()
	w.hear(
		stateOf("b", 1, &gossipv1.KeyClaim{Key: 7, Claim: float32(math.NaN())}),
		stateOf("b", 1, &gossipv1.KeyClaim{Key: 8, Claim: -1}),
		stateOf("b", 1, &gossipv1.KeyClaim{Key: 9, Admitted: math.Inf(1)}),
		stateOf("", 1, nil), stateOf("a", 1, &gossipv1.KeyClaim{Key: 7, Claim: 9}),
		&gossipv1.Replica{Name: "c", Weight: math.NaN()},
	)
	s := w.sums()
	if len(s.Keys) != 0 || s.TotalWeight != 3 {
		t.Errorf("%+v", s)
	}
	if got := w.Status(w.now); got.Refused != 4 || got.Conflicts != 1 {
		t.Errorf("refused %d, conflicts %d, want 4 and 1", got.Refused, got.Conflicts)
	}
}

func TestLag(t *testing.T) {
	w := newWorld()
	for delay, want := range map[time.Duration]time.Duration{
		0: 125 * ms, 30 * ms: 155 * ms, 70 * ms: 195 * ms, time.Hour: maxLag, -1: 125 * ms,
	} {
		w.SetDelay(delay, 0)
		if got := w.Lag(); got != want {
			t.Errorf("delay %v: lag %v, want %v", delay, got, want)
		}
	}
	var others []string
	for i := range exchange.DefaultEverybody {
		others = append(others, fmt.Sprint("agent-", i))
	}
	w.SetOwners(w.now, others, nil)
	w.SetDelay(30*ms, 5*ms)
	if got := w.Lag(); got != 195*ms {
		t.Errorf("to an owner and from there: lag %v, want 195 ms", got)
	}
}

// Whatever is lost, repeated or reordered: once the newest state of every replica has arrived, the sums are the sums of
// the newest states.
func TestSumsConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		newest := map[string]*gossipv1.Replica{}
		for seq := range uint64(rapid.IntRange(1, 12).Draw(t, "states")) {
			name := rapid.SampledFrom([]string{"b", "c"}).Draw(t, "name")
			r := stateOf(name, seq+1, &gossipv1.KeyClaim{Key: 7, Claim: float32(rapid.IntRange(0, 9).Draw(t, "claim")),
				Active:   1,
				Admitted: float64(rapid.IntRange(0, 99).Draw(t, "admitted"))})
			if rapid.Bool().Draw(t, "heard at once") {
				w.hear(r)
			}
			newest[name] = r
		}
		var claims float64
		for range 2 {
			claims = 0
			for _, r := range newest {
				w.hear(r)
				claims += float64(r.Keys[0].Claim)
			}
		}
		if s, _ := w.sum(7); s.Claims != claims {
			t.Fatalf("claims %v, want %v", s.Claims, claims)
		}
	})
}

// as gives the aggregator a state as one life of an agent does.
func (w *world) as(agent string, life uint64, r ...*gossipv1.Replica) {
	w.Receive(w.now, Sender{Agent: agent, Life: life, Promise: promise}, r)
}

func (w *world) wants(t *testing.T, what string, claims, admitted float64) {
	t.Helper()
	if s, _ := w.sum(7); s.Claims != claims || s.Admitted != admitted {
		t.Errorf("%s: claims %v, admitted %v, want %v and %v", what, s.Claims, s.Admitted, claims, admitted)
	}
}

// An agent, a filter, or both, begin again with lower numbers than before: their clock has stepped back. Their packets
// count, and nothing is counted twice.
func TestClockSteppedBack(t *testing.T) {
	state := func(process, seq uint64, claim float32, admitted float64) *gossipv1.Replica {
		r := stateOf("b", seq, &gossipv1.KeyClaim{Key: 7, Claim: claim, Active: 1, Admitted: admitted,
			Spent: 1, Own: 1})
		r.Generation, r.Process = process, process
		return r
	}
	w := newWorld()
	w.as("other", 1, state(1000, 900, 4, 10))
	w.wants(t, "at first", 4, 1)
	w.as("other", 1, state(1000, 901, 4, 20))
	w.wants(t, "later", 4, 11)
	w.as("other", 2, state(1000, 5, 6, 25))
	w.wants(t, "the agent began again", 6, 16)
	w.as("other", 2, state(1000, 6, 7, 30))
	w.wants(t, "and goes on", 7, 21)
	w.as("other", 3, state(400, 2, 8, 2))
	w.wants(t, "both began again", 8, 23)
	w.as("other", 3, state(400, 3, 9, 3))
	w.wants(t, "and go on", 9, 24)
	w.as("other", 3, state(300, 1, 1, 50))
	w.wants(t, "a third process, which the same agent says is older", 9, 24)
}

// Of a gateway that is linked here the newest process counts, whatever its clock said.
func TestFilterClockSteppedBack(t *testing.T) {
	w := newWorld()
	w.now += gather
	w.Connect(w.now, "b", 1000, 1)
	w.Announce(w.now, "b", 1000, &exchange.Claims{Keys: []exchange.KeyClaim{{Key: 7, Claim: 4, Active: 1, Admitted: 10,
		Spent: 10, Own: 10}}})
	w.Exit(w.now, "b", 1000)
	w.Connect(w.now, "b", 400, 1)
	w.Announce(w.now, "b", 400, &exchange.Claims{Keys: []exchange.KeyClaim{{Key: 7, Claim: 5, Active: 1, Admitted: 1,
		Spent: 1, Own: 1}}})
	w.wants(t, "here", 5, 11)
	there := newWorld()
	there.as("other", 1, w.state()...)
	if s, _ := there.sum(7); s.Claims != 5 {
		t.Errorf("elsewhere: claims %v, want 5", s.Claims)
	}
}

// Only its agent reports a replica until that agent is unreachable; no number is beyond its bound; no agent has more
// votes than one.
func TestOneBadAgent(t *testing.T) {
	w := newWorld()
	claim := func(name string, claim float32, w float64) *gossipv1.Replica {
		r := stateOf(name, 1, &gossipv1.KeyClaim{Key: 7, Claim: claim, Active: 1, Admitted: 1, Spent: 1, Own: 1})
		r.Weight = w
		return r
	}
	w.as("good", 1, claim("b", 2, 1))
	w.as("bad", 1, claim("b", 5, 1), claim("a", 5, 1), claim("c", 3e12, 1e308))
	w.wants(t, "what others say of b and of a, and a claim of 3e12", 2, 1)
	if s := w.Status(w.now); s.Conflicts != 2 || s.Refused != 1 || s.TotalWeight != 3 {
		t.Errorf("conflicts %d, refused %d, weight %v, want 2, 1 and 3", s.Conflicts, s.Refused, s.TotalWeight)
	}
	var many []*gossipv1.Replica
	for i := range 1000 {
		many = append(many, &gossipv1.Replica{Name: fmt.Sprint("invented-", i), Generation: 1, Weight: exchange.MaxWeight})
	}
	w.as("bad", 1, many...)
	if n := len(w.Status(w.now).Replicas); n > maxOfAgent+2 {
		t.Errorf("%d replicas, at most %d are one agent's", n, maxOfAgent)
	}
	for range 40 { // bad sends no more packets
		w.now += promise
		w.as("good", 1, &gossipv1.Replica{Name: "b", Generation: 1, Weight: 1})
		w.expect(t, "with 256 names gone silent", maxOfAgent+2, exchange.Connected)
	}
	w.as("new", 1, claim("c", 6, 1))
	if s, _ := w.sum(7); s.Claims != 8 {
		t.Errorf("c went to another agent: claims %v, want 8", s.Claims)
	}
	keys := &gossipv1.Replica{Name: "d", Generation: 1, Seq: 1, Weight: 1}
	for i := range 1 << 16 {
		keys.Keys = append(keys.Keys, &gossipv1.KeyClaim{Key: uint64(100 + i), Claim: 1})
	}
	w.as("greedy", 1, keys)
	if n := w.Status(w.now).Keys; n > 1<<15+1 {
		t.Errorf("one replica holds %d keys, at most half of %d are its", n, 1<<16)
	}
}

// A gateway is sent all sums once, then the changed ones and the withdrawn ones.
func TestSumsAreChanges(t *testing.T) {
	w := newWorld()
	state := func(seq uint64, from, to int, admitted float64) *gossipv1.Replica {
		r := stateOf("b", seq, nil)
		for k := from; k < to; k++ {
			r.Keys = append(r.Keys, &gossipv1.KeyClaim{Key: uint64(k + 1), Claim: 1, Active: 1, Admitted: admitted,
				Spent: 1, Own: 1})
		}
		return r
	}
	stamp := uint64(0)
	expect := func(what string, full bool, keys, gone int) {
		t.Helper()
		var s *exchange.Sums
		s, stamp = w.Aggregator.Sums(w.now, "a", stamp)
		if s.Full != full || len(s.Keys) != keys || len(s.Gone) != gone {
			t.Errorf("%s: full %v, %d keys, %d gone, want %v, %d and %d", what, s.Full, len(s.Keys), len(s.Gone), full,
				keys, gone)
		}
	}
	w.hear(state(1, 0, 3000, 1))
	expect("at first", true, 3000, 0)
	expect("nothing new", false, 0, 0)
	for i := range uint64(20) { // more notes than are kept
		w.hear(state(2+i, 0, 1000, 2+float64(i)))
	}
	expect("a third has changed", false, 1000, 0)
	gone := stateOf("b", 30, nil)
	gone.Keys = []*gossipv1.KeyClaim{{Key: 1, Admitted: 21}, {Key: 2, Admitted: 21}}
	w.hear(gone)
	expect("two are not used any more", false, 0, 2)
	w.Announce(w.now, "a", 1, &exchange.Claims{Keys: []exchange.KeyClaim{{Key: 3, Claim: 1}, {Key: 9000, Claim: 1}}})
	expect("keys that the gateway begins to use", false, 2, 0)
	w.Announce(w.now, "a", 1, &exchange.Claims{Keys: []exchange.KeyClaim{{Key: 3, Claim: 2}}})
	expect("its own claim", false, 0, 0)
	w.now += time.Second
	w.Advance(w.now)
	s, _ := w.Aggregator.Sums(w.now, "a", stamp)
	if len(s.Keys) == 0 {
		t.Error("b is silent, and what it is taken to have admitted is not told")
	}
}

// Invented keys that are given up leave room for later ones.
func TestGivenUpKeysMakeRoom(t *testing.T) {
	w := newWorld()
	for next := uint64(0); next < 4<<16; next += 1000 {
		c := &exchange.Claims{}
		for k := range uint64(1000) {
			c.Keys = append(c.Keys, exchange.KeyClaim{Key: next + k + 1, Claim: 1, Admitted: 1, Spent: 1, Own: 1})
			if next >= 1000 {
				c.Withdrawn = append(c.Withdrawn, next-1000+k+1)
			}
		}
		w.Announce(w.now, "a", 1, c)
		w.now += 100 * ms
	}
	if s := w.Status(w.now); s.Refused > 0 || s.Keys > 5<<14 {
		t.Errorf("%d claims refused, %d keys held, want none and at most %d", s.Refused, s.Keys, 5<<14)
	}
}

// A gateway's weight is the same number at its own agent as at the others, which take one
// above the bound for 1.
func TestALocalWeightBeyondTheBoundIsTheOthersToo(t *testing.T) {
	w := newWorld()
	w.hear(&gossipv1.Replica{Name: "b", Generation: 1, Weight: 1})
	w.Connect(w.now, "a", 1, 2*exchange.MaxWeight)
	w.Heads(w.now)
	if s := w.sums(); s.Weight != 1 || s.TotalWeight != 2 {
		t.Errorf("weight %v of %v, want 1 of 2", s.Weight, s.TotalWeight)
	}
	if out := w.Heads(w.now); len(out) != 1 || out[0].GetWeight() != 1 {
		t.Errorf("gossiped: %v", out)
	}
}

// While the coordinator's membership is fresh, a gateway here counts with the weight in it, as one elsewhere does.
func TestALeasedWeightCountsHereToo(t *testing.T) {
	w := newWorld()
	w.Connect(w.now, "heavy", 1, exchange.MaxWeight)
	w.SetMembers(w.now, []Member{{"a", 1}, {"heavy", 10}}, w.now+time.Second)
	if s := w.sums(); s.Weight != 1 || s.TotalWeight != 11 {
		t.Errorf("weight %v of %v, want 1 of 11", s.Weight, s.TotalWeight)
	}
	w.now += 2 * time.Second
	if s := w.sums(); s.TotalWeight != 1+exchange.MaxWeight {
		t.Errorf("without a membership: %v in all", s.TotalWeight)
	}
}

// One gateway leaves half of the keys for the others, however many it claims, and its claims that are not usable change
// nothing.
func TestAGatewayLeavesRoom(t *testing.T) {
	w := newWorld()
	w.Connect(w.now, "bad", 1, 1)
	all := &exchange.Claims{}
	for i := range uint64(1 << 17) {
		all.Keys = append(all.Keys, exchange.KeyClaim{Key: 100 + i, Claim: 1})
	}
	if bad, full := w.Announce(w.now, "bad", 1, all); bad != 0 || full != 1<<17-1<<15 {
		t.Errorf("%d unusable, %d without room, want none and three quarters", bad, full)
	}
	if bad, _ := w.Announce(w.now, "bad", 1, &exchange.Claims{Keys: []exchange.KeyClaim{{Key: 100, Claim: math.Inf(1)},
		{Key: 101, Admitted: -1}, {Key: 102, Spent: 2e12}}}); bad != 3 {
		t.Errorf("%d unusable, want 3", bad)
	}
	if s, _ := w.sum(100); s.Claims != 1 {
		t.Errorf("key 100 is claimed with %v, want 1 as before", s.Claims)
	}
	if _, full := w.Announce(w.now, "a", 1, &exchange.Claims{Keys: []exchange.KeyClaim{{Key: 7, Claim: 1}}}); full != 0 {
		t.Error("the other gateway finds no room")
	}
}
