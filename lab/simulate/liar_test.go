package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/lab/judge"
	"github.com/titrate/titrate/lab/simulate/scenario"
	"github.com/titrate/titrate/lab/simulate/system"
	"github.com/titrate/titrate/lab/simulate/traffic"
	"github.com/titrate/titrate/lab/simulate/world"
	"github.com/titrate/titrate/proto/liar"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// The agent of gw-3 sends false packets from liesFrom to liesUntil. Then gw-3 and its agent are gone.
const (
	liesFrom, liesUntil = 2 * time.Second, 7 * time.Second
	liesRate, liesBurst = 20., 20.
	// From soon on the lies have no effect: the others count the last claim of an unreachable gateway for 15 s.
	soon = liesUntil + 17*time.Second
	// late is the time after which a LOCAL limit has also repaid false claims. Each of three gateways may be counted
	// with Lc, 3 + r·δ here: the liar can make δ 2 s. It is unreachable for 15 s, in which each may have admitted the
	// rate. Meanwhile the other gateway uses up to a quarter of the rate, which repays nothing.
	late = soon + 4*(3+(2+15)*liesRate)*time.Second/liesRate
	// judged is the time for which the others are judged then.
	judged = 4 * time.Second
)

// lied records the requests of a run in which one agent sends false packets.
type lied struct {
	system.System
	clients  []traffic.Client
	requests []traffic.Request
	fates    []system.Answer
	owned    map[string]bool // clients whose keys the liar owns
	from     time.Duration   // when it is forgotten
}

// Offer and answer note the requests.
func (l *lied) Offer(id int, r *traffic.Request) {
	l.requests = append(l.requests, *r)
	l.System.Offer(id, r)
}

// each calls f for each request of a client at a gateway that does not lie.
func (l *lied) each(client string, f func(r *traffic.Request, a *system.Answer)) {
	for i := range l.fates {
		a := &l.fates[i]
		if r := &l.requests[a.ID]; l.clients[r.Client].Name == client && r.Gateway < 2 {
			f(r, a)
		}
	}
}

// admitted returns the number of a client's requests that were admitted in [from, to), and the worst excess over
// r·t + b.
func (l *lied) admitted(client string, from, to time.Duration) (n int, over float64) {
	level := judge.Level{Rate: liesRate}
	l.each(client, func(_ *traffic.Request, a *system.Answer) {
		if a.Fate == system.Admitted && a.At >= from && a.At < to {
			n++
			over = max(over, level.Admit(a.At-from, 1)-liesBurst)
		}
	})
	return n, over
}

// refused returns the number of a client's requests that were refused from a time on.
func (l *lied) refused(client string, from time.Duration) (n int) {
	l.each(client, func(r *traffic.Request, a *system.Answer) {
		if a.Fate == system.Rejected && r.At >= from {
			n++
		}
	})
	return n
}

// liesScenario has clients: clients of acme and other use keys that the liar names, clients of calm use other
// keys.
func liesScenario(forgotten time.Duration) *scenario.Scenario {
	s := scenario.New(forgotten+judged, 3)
	s.Gossip.Delay, s.Lead = 250*time.Microsecond, 5*time.Second
	limit := func(tenant string, precision quotav1.Precision) []resource.Message {
		return []resource.Message{&quotav1.Tenant{Name: "tenants/" + tenant}, &quotav1.Limit{
			Name: "tenants/" + tenant + "/limits/each", Rate: fmt.Sprint(liesRate, "/s"), Burst: liesBurst,
			Precision: precision}}
	}
	s.Resources = slices.Concat(limit("acme", quotav1.Precision_EXACT), limit("other", quotav1.Precision_LOCAL),
		limit("calm", quotav1.Precision_EXACT))
	all := scenario.Route{Weights: map[string]float64{"gw-1": 1, "gw-2": 1, "gw-3": .3}}
	two := scenario.Route{Weights: map[string]float64{"gw-1": 1, "gw-2": 1}}
	for _, c := range []struct {
		name, tenant string
		rate         float64
		route        scenario.Route
	}{{"exact-a", "acme", 60, all}, {"exact-b", "acme", 60, all}, {"exact-below", "acme", 10, all},
		{"local", "other", 60, all}, {"local-below", "other", 10, all},
		{"calm-a", "calm", 10, two}, {"calm-b", "calm", 10, two}, {"calm-c", "calm", 10, two}} {
		s.Clients = append(s.Clients, scenario.Client{Name: c.name, Tenant: c.tenant, Cost: 1, Route: c.route,
			Demand: scenario.Poisson(c.rate)})
	}
	s.Events = []scenario.Event{{At: liesUntil, Kind: scenario.Crash, Replica: "gw-3"}}
	return s
}

// playLies plays a liar that sends the result of falsify for each of its packets, until its lies are forgotten.
func playLies(t *testing.T, forgotten time.Duration,
	falsify func(n int, bad *liar.Liar, p *gossipv1.Packet) []*gossipv1.Packet) *lied {
	t.Helper()
	s, report := liesScenario(forgotten), progress{passes: 2}
	reference, err := rehearse(t.Context(), s, &report)
	if err != nil {
		t.Fatal(err)
	}
	calm, n := map[uint64]bool{}, 0
	bad := &liar.Liar{Spare: func(key uint64) bool { return calm[key] }}
	l := &lied{owned: map[string]bool{}, from: forgotten}
	_, err = perform(t.Context(), s, contender{Titrate, func(stage system.Stage) (system.System, error) {
		answer := stage.Answer
		stage.Answer = func(a system.Answer) {
			l.fates = append(l.fates, a)
			answer(a)
		}
		l.clients = stage.Cast.Clients
		made, err := world.New(stage)
		l.System = made
		now := func() time.Duration { return made.(*world.World).Clock() }
		made.(*world.World).Tamper = func(from, to string, p *gossipv1.Packet) []*gossipv1.Packet {
			for _, q := range p.GetTokens().GetRequests() {
				calm[q.GetKey()] = calm[q.GetKey()] || q.GetTenant() == "calm"
				l.owned[string(q.GetClient())] = l.owned[string(q.GetClient())] || to == "gw-3"
			}
			bad.Hear(p)
			if from != "gw-3" || now() < liesFrom || now() >= liesUntil {
				return []*gossipv1.Packet{p}
			}
			n++
			return falsify(n, bad, p)
		}
		return l, err
	}}, reference, false, &report)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// check checks the bounds of docs/guarantees.md for one bad agent.
func (l *lied) check(t *testing.T, what string, names bool) {
	t.Helper()
	for _, client := range []string{"exact-a", "exact-b", "local"} {
		if _, over := l.admitted(client, 0, l.from+judged); over > 4*liesBurst+2 && !l.owned[client] {
			t.Errorf("%s: %s is admitted %.0f over r·t + b, at most %.0f", what, client, over, 4*liesBurst+2)
		}
		n, over := l.admitted(client, l.from, l.from+judged)
		if least := .9 * liesRate * judged.Seconds(); float64(n) < least || over > 3 {
			t.Errorf("%s: %s is admitted %d once the liar is forgotten, at least %.0f, and %.1f over r·t + b", what,
				client, n, least, over)
		}
	}
	for _, client := range []string{"exact-below", "local-below"} {
		if n := l.refused(client, l.from); n > 0 {
			t.Errorf("%s: %d of %s are refused once the liar is forgotten", what, n, client)
		}
	}
	for _, client := range []string{"calm-a", "calm-b", "calm-c"} {
		if n := l.refused(client, 0); n > 0 && !names && !l.owned[client] {
			t.Errorf("%s: %d of %s are refused, of whose key the liar says nothing", what, n, client)
		}
	}
}

// An agent sets each field of each record of its packets to values at, below and beyond its bounds, and to
// values that others have sent there. These are their keys, processes, sessions and names. Each second packet
// is correct.
func TestALiarInOneFieldOfItsPackets(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays each field alone; TestALiarInManyFieldsOfItsPackets plays all of them")
	}
	for _, path := range liar.Fields((&gossipv1.Packet{}).ProtoReflect().Descriptor()) {
		if path == "agent" {
			continue // a packet is sealed by the agent that it names
		}
		tokens := strings.HasPrefix(path, "tokens.")
		forgotten := soon
		if path == "replicas.process" || path == "replicas.keys.admitted" {
			forgotten = late
		}
		l := playLies(t, forgotten, func(n int, bad *liar.Liar, p *gossipv1.Packet) []*gossipv1.Packet {
			if n%2 == 0 || tokens != (p.GetTokens() != nil) && n%8 != 1 {
				return []*gossipv1.Packet{p}
			}
			q := proto.CloneOf(p)
			if tokens && p.GetTokens() == nil {
				q = &gossipv1.Packet{Agent: p.GetAgent(), Incarnation: p.GetIncarnation()}
			}
			if bad.Tell(q, path, n/16); tokens == (p.GetTokens() != nil) {
				return []*gossipv1.Packet{q}
			}
			return []*gossipv1.Packet{p, q}
		})
		l.check(t, path, strings.HasSuffix(path, ".key"))
	}
}

// The same with several fields at once, drawn again for each packet.
func TestALiarInManyFieldsOfItsPackets(t *testing.T) {
	t.Parallel()
	paths := slices.DeleteFunc(liar.Fields((&gossipv1.Packet{}).ProtoReflect().Descriptor()), func(path string) bool {
		return path == "agent" || strings.HasSuffix(path, ".key")
	})
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 7))
		l := playLies(t, late, func(_ int, bad *liar.Liar, p *gossipv1.Packet) []*gossipv1.Packet {
			if random.IntN(3) == 0 {
				return []*gossipv1.Packet{p}
			}
			q := proto.CloneOf(p)
			for range 1 + random.IntN(3) {
				path := paths[random.IntN(len(paths))]
				if strings.HasPrefix(path, "tokens.") == (p.GetTokens() != nil) {
					bad.Tell(q, path, random.IntN(1000))
				}
			}
			return []*gossipv1.Packet{q}
		})
		l.check(t, fmt.Sprint("seed ", seed), false)
	}
}

// What an agent has sent is played again at any time: that changes nothing, also where the seal of the packets
// does not keep it away.
func TestPacketsPlayedAgain(t *testing.T) {
	t.Parallel()
	var recorded []*gossipv1.Packet
	l := playLies(t, soon, func(n int, _ *liar.Liar, p *gossipv1.Packet) []*gossipv1.Packet {
		recorded = append(recorded, proto.CloneOf(p))
		return []*gossipv1.Packet{p, proto.CloneOf(recorded[n*7919%len(recorded)])}
	})
	l.check(t, "played again", false)
	for _, client := range []string{"exact-a", "exact-b"} {
		if _, over := l.admitted(client, 0, soon+judged); over > 3 {
			t.Errorf("%s: %.1f over r·t + b", client, over)
		}
	}
	for _, client := range []string{"exact-below", "local-below"} {
		if n := l.refused(client, 0); n > 0 {
			t.Errorf("%s: %d refused", client, n)
		}
	}
}
