package core

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/liar"
	"github.com/titrate/titrate/proto/link"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/agent/applied"
)

// hostileLink is the link of a gateway that lies, beside that of an honest gateway of the same agent.
const hostileLink Link = 2

// beside returns a fleet of three agents with an honest gateway each, of which the first one has a gateway that lies,
// too, and a configuration with an EXACT limit.
func beside(t *testing.T) *fleet {
	t.Helper()
	f := newFleet(3, 16, 1)
	for _, a := range f.agents {
		if _, err := a.Configure(&applied.Configuration{Revision: 1, Config: &config.Config{Revision: 1, Seed: 5,
			Pools: []config.Pool{{Name: "api", Capacity: 100}}, Tenants: []config.Tenant{{Name: "acme", Weight: 1,
				Limits: []config.Limit{{Name: "each", Rate: 10, Burst: 10, Precision: config.Exact}}}}}}); err != nil {
			t.Fatal(err)
		}
	}
	f.hello(1)
	return f
}

// hello connects the gateway that lies.
func (f *fleet) hello(generation uint64) {
	a := f.agents[0]
	f.take(a, a.Connected(f.at(a), hostileLink, link.Hello{Version: link.Version, Replica: "hostile",
		Generation: generation, Weight: 1}, 0))
}

func (f *fleet) lie(m link.Message) {
	a := f.agents[0]
	f.take(a, a.Received(f.at(a), hostileLink, m))
}

// mustMarshal fails if an agent's report to its coordinator, or what it answers it, cannot be sent.
func mustMarshal(t *testing.T, what string, now time.Duration, a *fleetAgent, to *Stream) {
	t.Helper()
	for _, m := range []proto.Message{
		to.Report(now),
		a.Answer(now, &controlv1.Question{Selection: &quotav1.Selection{By: quotav1.Selection_TENANT, Most: 1000}})(),
		a.Answer(now, &controlv1.Question{Selection: &quotav1.Selection{By: quotav1.Selection_LIMIT, Most: 1000}})(),
		a.Answer(now, &controlv1.Question{Selection: &quotav1.Selection{By: quotav1.Selection_CLIENT, Most: 1000}})(),
		a.Answer(now, &controlv1.Question{Request: strings.Repeat("y", maxText)})(),
	} {
		b, err := proto.Marshal(m)
		if err != nil || len(b) > 1<<20 {
			t.Fatalf("%s: %T has %d bytes: %v", what, m, len(b), err)
		}
	}
}

// A gateway plays each field of each message at, below and beyond its bounds, with texts that are too long or no
// UTF-8, and with others' keys. Its agent goes on. Its packets and its reports can be sent, and beside what the
// gateway says of its own use the honest gateways learn of each other's use as before.
func TestAGatewayThatLiesHarmsNobody(t *testing.T) {
	for _, path := range liar.GatewayFields() {
		f := beside(t)
		a, bad := f.agents[0], &liar.Gateway{}
		to, _ := a.Hello(f.at(a))
		f.admit(1, 11, 3)
		bad.Hear(&exchange.Claims{Keys: []exchange.KeyClaim{{Key: 11, Claim: 1, Admitted: 3, Spent: 3, Own: 3}}})
		bad.Hear(&exchange.TokenRequests{List: []exchange.TokenRequest{{Key: 11,
			KeyName: exchange.KeyName{Tenant: "acme", Limit: "each", Client: "a"}}}})
		for n := range 16 {
			m := liar.NewMessage(path)
			if r, is := m.(*exchange.Report); is {
				r.Interval, r.Part, r.Parts = exchange.ReportEvery, 0, 1
			}
			bad.Tell(m, path, n)
			f.lie(m)
			f.run(period, nil)
			mustMarshal(t, fmt.Sprint(path, " ", n), f.at(a), a, to)
		}
		for i := range f.agents {
			f.admit(i, 12, 5)
		}
		f.run(time.Second, nil)
		f.wants(t, path, map[uint64]float64{12: 15}, 12)
		if spent := f.agents[2].charged[11]; spent < 3 {
			t.Errorf("%s: gateway 2 has charged %v of what gateway 1 has admitted, want at least 3", path, spent)
		}
	}
}

// What is out of its bounds is counted, and logged once a minute with the gateway's name, however often it comes.
func TestDoubtsAreCountedAndLogged(t *testing.T) {
	c := newCore()
	c.Connected(0, 1, hello("bad", 1, 1), 0)
	lines, refusals := 0, 0
	for i := range 2 * 60 {
		now := time.Duration(i) * time.Second
		for n := range 20 {
			for _, m := range []link.Message{
				&exchange.Claims{Keys: []exchange.KeyClaim{{Key: 1, Claim: math.Inf(1)}, {Key: 2, Admitted: -1}}},
				&exchange.Report{Interval: time.Second, Flows: []exchange.FlowReport{{Tenant: "a\xff", Pool: "p"}}},
				&link.Heartbeat{Refused: int64(20*i + n + 1)},
				&link.Refused{Total: 1, Limits: []config.LeftOut{{Limit: "x"}}},
			} {
				refusals += logged(c.Received(now, 1, m), "refused", "does not enforce")
			}
		}
		out := c.Tick(now)
		lines += logged(out, "dropped or cut")
		for _, e := range out.Log {
			if strings.Contains(e.Text, "dropped or cut") && !slices.Contains(e.Details, any("bad")) {
				t.Errorf("%v does not name the gateway", e.Details)
			}
		}
	}
	got := c.Status(0).Doubted
	if got[DoubtNumber] != 2*20*120 || got[DoubtText] != 20*120 {
		t.Errorf("%v are counted, want %d numbers and %d texts", got, 2*20*120, 20*120)
	}
	if lines != 2 || refusals > 4*linesAtOnce {
		t.Errorf("%d lines of what is dropped in two minutes, %d of what is refused", lines, refusals)
	}
}

// logged counts the lines with one of some words.
func logged(out Effects, words ...string) (n int) {
	for _, e := range out.Log {
		if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(e.Text, w) }) {
			n++
		}
	}
	return n
}

// A process that takes the name and the generation of another living one does not get its link, nor its claims.
func TestNobodySpeaksForAnotherProcess(t *testing.T) {
	c := newCore()
	c.Connected(0, 1, hello("gw", 7, 1), 100)
	if out := c.Connected(0, 2, hello("gw", 7, 1), 200); !slices.Equal(out.Close, []Link{2}) {
		t.Errorf("links closed: %v, want that of the second process", out.Close)
	}
	c.Received(0, 2, &exchange.Claims{Keys: []exchange.KeyClaim{{Key: 1, Claim: 1}}})
	if s := c.Status(0); s.Aggregation.Keys != 0 || s.Doubted[DoubtIdentity] != 1 {
		t.Errorf("%d keys, doubts %v", s.Aggregation.Keys, s.Doubted)
	}
	c.Disconnected(0, 1)
	if out := c.Connected(time.Second, 3, hello("gw", 7, 1), 200); len(out.Close) != 1 {
		t.Error("the second process has the first one's place while that has no link")
	}
	if out := c.Connected(time.Second, 4, hello("gw", 7, 1), 100); len(out.Close) != 0 {
		t.Error("the first process does not come back")
	}
	c.Disconnected(2*time.Second, 4)
	c.Exited(2*time.Second, Process{Gateway: "gw", Generation: 7})
	if out := c.Connected(2*time.Second, 5, hello("gw", 7, 1), 200); len(out.Close) != 0 {
		t.Error("the first process has exited")
	}
}

// No process can choose its name and generation so that owners of keys take it for another one.
func TestProcessNumbersAreNotChosen(t *testing.T) {
	seen := map[uint64]bool{}
	for i := range 1000 {
		for generation := range uint64(3) {
			n := processNumber(Process{Gateway: fmt.Sprint("gw-", i), Generation: generation})
			m := processNumber(Process{Gateway: fmt.Sprint("gw-", i), Generation: generation ^ 1<<40})
			if seen[n] || n^m == 1<<40 {
				t.Fatalf("gw-%d, %d has the number %x", i, generation, n)
			}
			seen[n] = true
		}
	}
}

// A gateway that comes back with another name each time leaves no more than maxProcesses, and the processes that it
// has not invented stay.
func TestInventedProcessesAreBounded(t *testing.T) {
	c := newCore()
	c.Connected(0, 1, hello("honest", 1, 1), 100)
	c.Received(0, 1, &exchange.Claims{Keys: []exchange.KeyClaim{{Key: 1, Claim: 1}}})
	c.Disconnected(0, 1)
	names := 5000
	if testing.Short() {
		names = 4 * maxProcesses
	}
	for i := range names {
		now := time.Duration(i) * time.Millisecond
		at := Link(i + 10)
		c.Connected(now, at, hello(fmt.Sprint("invented-", i), 1, 1), 200)
		c.Received(now, at, &exchange.TokenRequests{List: []exchange.TokenRequest{{Key: uint64(i)}}})
		c.Disconnected(now, at)
		if len(c.gateways) > maxProcesses || len(c.processes) > maxProcesses {
			t.Fatalf("%d processes are known", len(c.gateways))
		}
	}
	if c.gateways[Process{Gateway: "honest", Generation: 1}] == nil {
		t.Error("the honest gateway, which has no link for a moment, is forgotten")
	}
	if n := len(c.Status(6 * time.Second).Aggregation.Replicas); n > maxProcesses {
		t.Errorf("%d replicas", n)
	}
}

// A gateway that invents names, flows, requests and clients without end makes its agent grow by a bound, while no
// coordinator takes anything. It leaves room for those of another gateway.
func TestWhatAGatewayInventsIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("it fills an agent")
	}
	c := newCore()
	c.Connected(0, 1, hello("bad", 1, 1), 100)
	c.Connected(0, 2, hello("good", 1, 1), 200)
	random, long := rand.New(rand.NewPCG(1, 2)), strings.Repeat("n", 200)
	name := func() string { return fmt.Sprint(random.Uint64(), long) }
	before := heap()
	for i := range 100 {
		now := time.Duration(i) * 50 * time.Millisecond
		report := &exchange.Report{Interval: time.Second, Part: uint8(i), Parts: 255}
		decisions, spent, claims := &exchange.Decisions{}, &exchange.Spent{}, &exchange.Claims{}
		for range 2000 {
			report.Flows = append(report.Flows, exchange.FlowReport{Tenant: name(), Pool: name(),
				Counts: exchange.Counts{Admitted: 1}})
			report.Clients = append(report.Clients, exchange.ClientCount{Tenant: name(), Client: name()})
			decisions.List = append(decisions.List, exchange.Decision{Request: name(), Tenant: name(),
				Reason: strings.Repeat("r", 20_000)})
			spent.Keys = append(spent.Keys, exchange.KeySpent{Key: random.Uint64(), Ahead: math.MaxInt64 / 2})
			spent.Keys = append(spent.Keys, exchange.KeySpent{Key: random.Uint64(), Ahead: 300 * 24 * time.Hour})
			claims.Keys = append(claims.Keys, exchange.KeyClaim{Key: random.Uint64(), Claim: 1})
		}
		for _, m := range []link.Message{report, decisions, spent, claims} {
			c.Received(now, 1, m)
		}
	}
	if grown := heap() - before; grown > 512<<20 {
		t.Errorf("the agent has grown by %d MiB", grown>>20)
	}
	later := 5 * time.Second
	c.Received(later, 2, &exchange.Report{Interval: time.Second, Flows: []exchange.FlowReport{{Tenant: "acme",
		Pool: "api", Demand: 7, Counts: exchange.Counts{Admitted: 1}}}})
	c.Received(later, 2, &exchange.Spent{Keys: []exchange.KeySpent{{Key: 4, Ahead: time.Second}}})
	c.Received(later, 2, &exchange.Claims{Keys: []exchange.KeyClaim{{Key: 4, Claim: 3}}})
	if s := c.spent.For(later, "good"); s == nil || len(s.Keys) != 1 {
		t.Errorf("what a client of the other gateway has spent is not remembered: %v", s)
	}
	if s, _ := c.aggregator.Sums(later, "bad", 0); !slices.ContainsFunc(s.Keys,
		func(k exchange.KeySum) bool { return k.Key == 4 && k.Claims == 3 }) {
		t.Error("the other gateway's claim found no room")
	}
	to, _ := c.Hello(later)
	r := to.Report(later)
	if !slices.ContainsFunc(r.GetFlows(), func(f *controlv1.FlowReport) bool { return f.GetGateway() == "good" }) {
		t.Error("the coordinator is not told of the other gateway's demand")
	}
	if n := proto.Size(r); n > 16<<20 {
		t.Errorf("a report of %d bytes", n)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A gateway that says first of a limit's key that it is a flow's does not hide what others use of it, nor the other
// way round. That holds with few agents and with owners.
func TestNobodyHidesAKeyByItsKind(t *testing.T) {
	for _, everybody := range []int{16, 1} {
		f := newFleet(3, everybody, 1)
		f.hello(1)
		f.lie(&exchange.Claims{Flows: []exchange.FlowClaim{{Key: 12, Claim: 1e-3}}})
		f.run(time.Second, nil)
		for i := range f.agents {
			f.agents[i].claim[12] = 4
			f.admit(i, 12, 5)
		}
		f.run(3*time.Second, nil)
		for i, a := range f.agents {
			if got := a.sums[12].Claims; got < 8 || got > 8.1 {
				t.Errorf("with %d agents that tell everybody, gateway %d is told of claims of %v by the others, want 8",
					everybody, i, got)
			}
		}
	}
}

// All parts in which a filter reports clients are taken.
func TestEachPartOfTheClientsIsTaken(t *testing.T) {
	c := newCore()
	c.Connected(0, 1, hello("good", 1, 1), 100)
	for part := range uint8(exchange.MaxClientParts) {
		r := &exchange.Report{Interval: time.Second, Part: part, Parts: exchange.MaxClientParts}
		for i := range exchange.MaxPartClients {
			r.Clients = append(r.Clients, exchange.ClientCount{Tenant: "acme", Client: fmt.Sprint(part, i), Count: 1})
		}
		if c.Received(0, 1, r); len(r.Clients) != exchange.MaxPartClients {
			t.Fatalf("%d clients are left of part %d", len(r.Clients), part)
		}
	}
	if c.doubts.count != [Doubts]uint64{} {
		t.Errorf("dropped %v", c.doubts.count)
	}
}
