package core

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/agent/aggregation"
	"github.com/titrate/titrate/services/agent/applied"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
	"google.golang.org/protobuf/types/known/durationpb"
)

const period = 50 * time.Millisecond

func newCore() *Core {
	return New(Options{Name: "agent", Incarnation: 7, Period: period, T1: 10 * time.Second, T2: 15 * time.Second})
}

func hello(name string, generation uint64, restart int) link.Hello {
	return link.Hello{Version: link.Version, Replica: name, Generation: generation, Restart: restart, Weight: 1}
}

// messages are the frames to one link.
func messages(e Effects, to Link) (out []link.Message) {
	for _, f := range e.Frames {
		if f.To == to {
			out = append(out, f.Message)
		}
	}
	return out
}

func compiled(t *testing.T, revision int64) *applied.Configuration {
	t.Helper()
	var o applied.Offer
	c, err := o.Begin(0).Add(&controlv1.Configuration{Revision: revision, Full: true, Last: true, Seed: 5,
		Resources: []*quotav1.Resource{
			{Kind: &quotav1.Resource_Pool{Pool: &quotav1.Pool{Name: "pools/api", Capacity: 100}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A name that is not configured stands for the default tenant or for no pool, once a configuration is known.
func TestConfigured(t *testing.T) {
	c := newCore()
	if tenant, pool := c.Configured("anything", "any"); tenant != "anything" || pool != "any" {
		t.Errorf("without a configuration: %s, %s", tenant, pool)
	}
	in := &applied.Configuration{Revision: 1, Config: &config.Config{Revision: 1,
		Tenants: []config.Tenant{{Name: "acme"}}, Pools: []config.Pool{{Name: "api", Capacity: 1}}}}
	if _, err := c.Configure(in); err != nil {
		t.Fatal(err)
	}
	if tenant, pool := c.Configured("acme", "api"); tenant != "acme" || pool != "api" {
		t.Errorf("configured: %s, %s", tenant, pool)
	}
	if tenant, pool := c.Configured("anything", "any"); tenant != config.DefaultTenant || pool != NoPool {
		t.Errorf("not configured: %s, %s", tenant, pool)
	}
}

// What is in force is logged once for each revision, however often a stream brings it. The defaults of all
// tenants are no tenant.
func TestConfigurationIsLoggedOnce(t *testing.T) {
	c := newCore()
	for _, revision := range []int64{4, 4, 4, 5, 5, 4} {
		in := &applied.Configuration{Revision: revision, Config: &config.Config{Revision: revision,
			Tenants: []config.Tenant{{Name: config.DefaultTenant}, {Name: "acme"}}}}
		before := c.logged
		out, err := c.Configure(in)
		if err != nil {
			t.Fatal(err)
		}
		if logged := len(out.Log) == 1; logged != (revision != before) {
			t.Errorf("revision %d after %d: %+v", revision, before, out.Log)
		}
		for _, e := range out.Log {
			if got := fmt.Sprint(e.Details...); !strings.HasSuffix(got, "tenants 1") && !strings.HasSuffix(got, "tenants1") {
				t.Errorf("%s", got)
			}
		}
	}
}

func leases(seq uint64, share float64) *controlv1.Leases {
	return &controlv1.Leases{Epoch: 1, Seq: seq, SoftExpiry: durationpb.New(time.Second),
		Leases: []*controlv1.Lease{{Tenant: "t", Pool: "api", Share: share}}}
}

// A gateway that connects gets what its clients have spent, the configuration, the shares and the sums, in this order.
// The owners of keys follow, of its site and of all sites.
func TestConnectedGetsAll(t *testing.T) {
	c := newCore()
	to, _ := c.Hello(0)
	c.Connected(0, 1, hello("gw", 1, 1), 0)
	c.Received(0, 1, &exchange.Spent{Keys: []exchange.KeySpent{{Key: 3, Ahead: time.Minute}}})
	if _, err := c.Configure(compiled(t, 4)); err != nil {
		t.Fatal(err)
	}
	if _, err := to.Leases(0, leases(1, 40)); err != nil {
		t.Fatal(err)
	}
	got := messages(c.Connected(time.Second, 2, hello("gw", 2, 2), 0), 2)
	if len(got) != 6 {
		t.Fatalf("%d messages: %v", len(got), got)
	}
	spent, ok := got[0].(*exchange.Spent)
	if !ok || len(spent.Keys) != 1 || spent.Keys[0].Ahead != 59*time.Second {
		t.Errorf("first %+v, want what was spent, a second later", got[0])
	}
	if config, ok := got[1].(*config.Config); !ok || config.Revision != 4 {
		t.Errorf("second %+v, want the configuration", got[1])
	}
	if shares, ok := got[2].(*exchange.Shares); !ok || shares.Flows[0].Share != 40 {
		t.Errorf("third %+v, want the shares", got[2])
	}
	if sums, ok := got[3].(*exchange.Sums); !ok || sums.Replicas != 1 {
		t.Errorf("fourth %+v, want the sums", got[3])
	}
	for i, global := range []bool{false, true} {
		if a, ok := got[4+i].(*exchange.TokenAnswers); !ok || len(a.Owners.List) != 1 || a.Global != global {
			t.Errorf("%+v, want the owners of keys, of all sites: %v", got[4+i], global)
		}
	}
}

// Configurations are sent once per link, shares only when they change.
func TestStateIsSentOnChange(t *testing.T) {
	c := newCore()
	to, _ := c.Hello(0)
	c.Connected(0, 1, hello("gw", 1, 1), 0)
	out, err := c.Configure(compiled(t, 4))
	if err != nil || len(messages(out, 1)) != 1 || !out.Save {
		t.Errorf("a configuration: %+v, %v", out, err)
	}
	out, err = to.Leases(0, leases(1, 40))
	if err != nil || len(messages(out, 1)) != 1 || !out.Save {
		t.Errorf("leases: %+v, %v", out, err)
	}
	if out, err = to.Leases(100*time.Millisecond, leases(2, 40)); err != nil || len(out.Frames) != 0 || out.Save {
		t.Errorf("renewed: %+v, %v", out, err)
	}
	if out, err = to.Leases(100*time.Millisecond, leases(2, 99)); err != nil || len(out.Frames) != 0 {
		t.Errorf("overtaken: %+v, %v", out, err)
	}
	out = c.Tick(2 * time.Second)
	if got := messages(out, 1); len(got) == 0 || !got[0].(*exchange.Shares).Stale || len(out.Log) != 1 {
		t.Errorf("not renewed: %+v", out)
	}
	to.Leases(3*time.Second, &controlv1.Leases{Epoch: 2, Seq: 1})
	var stale *applied.StaleEpochError
	if _, err := to.Leases(3*time.Second, leases(9, 1)); !errors.As(err, &stale) {
		t.Errorf("of a replaced coordinator: %v", err)
	}
}

// Gateways are sent the changes; an older gateway, one with a refused change and a newly connected one are sent the
// whole.
func TestChangesAreSent(t *testing.T) {
	c := newCore()
	var o applied.Offer
	stream := o.Begin(0)
	configure := func(m *controlv1.Configuration) Effects {
		t.Helper()
		m.Last, m.Seed = true, 5
		in, err := stream.Add(m)
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.Configure(in)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	pool := func(capacity float64) []*quotav1.Resource {
		return []*quotav1.Resource{{Kind: &quotav1.Resource_Pool{Pool: &quotav1.Pool{Name: "pools/api",
			Capacity: capacity}}}}
	}
	c.Connected(0, 1, hello("gw", 1, 1), 0)
	whole := func(m link.Message, revision int64) bool {
		in, ok := m.(*config.Config)
		return ok && in.Revision == revision && len(in.Pools) == 1
	}
	out := configure(&controlv1.Configuration{Revision: 4, Full: true, Resources: pool(1)})
	if a := messages(out, 1); len(a) != 1 || !whole(a[0], 4) {
		t.Fatalf("the first configuration: %+v", a)
	}
	out = configure(&controlv1.Configuration{Revision: 5, Resources: pool(2)})
	a := messages(out, 1)
	if d, ok := a[0].(*config.Delta); !ok || d.Base != 4 || d.Revision != 5 || len(a) != 1 {
		t.Errorf("a change: %+v", a)
	}
	if got := messages(c.Connected(0, 3, hello("late", 1, 1), 0), 3); len(got) == 0 || !whole(got[0], 5) {
		t.Errorf("to one that connects: %+v", got)
	}
	refusal := &link.Heartbeat{Revision: 3, Refused: 5, Reason: "a change of revision 4"}
	if got := messages(c.Received(0, 1, refusal), 1); len(got) != 1 || !whole(got[0], 5) {
		t.Errorf("after a refused change: %+v", got)
	}
	if got := messages(c.Received(0, 1, refusal), 1); len(got) != 0 || c.Status(0).Resent != 1 {
		t.Errorf("the whole is sent again: %+v, %d", got, c.Status(0).Resent)
	}
	c.ConfigSent(1, 5, errors.New("link: encode Config"))
	out = configure(&controlv1.Configuration{Revision: 6, Resources: pool(3)})
	if got := messages(out, 1); len(got) != 1 || !whole(got[0], 6) {
		t.Errorf("after one that could not be sent: %+v", got)
	}
}

// The life of a gateway: connected twice, disconnected, exited, forgotten.
func TestGatewayLife(t *testing.T) {
	c := newCore()
	id := Process{Gateway: "gw", Generation: 1}
	c.PeerAlive(0, "other agent", "", true, schedule.Version)
	told := func(now time.Duration) (out []*gossipv1.Replica) {
		packets, _ := c.Round(now, false)
		for _, p := range packets {
			out = append(out, p.Packet.Replicas...)
		}
		return out
	}
	c.Connected(0, 1, hello("gw", 1, 1), 42)
	if out := c.Connected(0, 2, hello("gw", 1, 1), 42); len(out.Close) != 1 || out.Close[0] != 1 {
		t.Errorf("a second link of one process: %+v, want the first closed", out)
	}
	c.Disconnected(0, 1) // the older link, whose end comes late
	if len(c.Received(0, 1, &exchange.Claims{}).Frames) != 0 || len(c.connected()) != 1 {
		t.Error("the end of the older link ends the newer one")
	}
	claims := &exchange.Claims{Keys: []exchange.KeyClaim{{Key: 7, Claim: 1, Active: 1}}}
	if out := c.Received(0, 2, claims); !out.GossipSoon {
		t.Error("claims are not gossiped soon")
	}
	c.Disconnected(time.Second, 2)
	if c.MayHaveExited()[id] != 42 || c.Empty() {
		t.Error("a disconnected gateway is not looked after")
	}
	if r := told(time.Second); len(r) != 0 {
		t.Errorf("a disconnected gateway is gossiped: %v", r)
	}
	if out := c.Exited(2*time.Second, id); !out.GossipSoon || !c.Empty() {
		t.Error("an exit is not gossiped, or the agent is not empty")
	}
	if r := told(2 * time.Second); len(r) != 1 || !r[0].Drained {
		t.Errorf("an exit is gossiped as %v", r)
	}
	c.Tick(2*time.Second + aggregation.Linger + 1)
	if len(c.gateways) != 0 || len(c.Status(0).Aggregation.Replicas) != 0 {
		t.Error("a gateway that has exited is not forgotten")
	}
	c.Connected(10*time.Second, 3, hello("gw", 2, 1), 0)
	c.Disconnected(10*time.Second, 3)
	c.Tick(25 * time.Second)
	if len(c.gateways) != 1 {
		t.Error("a disconnected gateway is forgotten before T2")
	}
	if c.Tick(26 * time.Second); len(c.gateways) != 0 {
		t.Error("a disconnected gateway is not forgotten at T2")
	}
}

// Two processes of one name are a hot restart if one follows the other.
func TestDoubles(t *testing.T) {
	process := func(name string, generation uint64, restart int) *gateway {
		return &gateway{Process: Process{Gateway: name, Generation: generation},
			facts: facts{hello: link.Hello{Restart: restart}}}
	}
	one := process("gw", 1, 1)
	for _, c := range []struct {
		other *gateway
		want  bool
	}{
		{process("gw", 2, 1), true}, {process("gw", 2, 2), false}, {process("gw", 2, 3), true},
		{process("gw", 2, 0), false}, {process("gw", 1, 1), false}, {process("other", 2, 1), false},
	} {
		if got := isDouble(one, c.other); got != c.want || isDouble(c.other, one) != c.want {
			t.Errorf("%+v beside %+v: %v", c.other, one, got)
		}
	}
	c := newCore()
	c.Connected(0, 1, hello("gw", 1, 1), 0)
	c.Connected(0, 2, hello("gw", 2, 1), 0)
	if out := c.Tick(time.Second); len(out.Log) != 1 ||
		!strings.Contains(out.Log[0].Text, "two Envoys have one replica name") {
		t.Errorf("%+v", out.Log)
	}
	if out := c.Tick(2 * time.Second); len(out.Log) != 0 {
		t.Errorf("logged twice: %+v", out.Log)
	}
	if s := c.Status(0); len(s.DoubleNames) != 1 || s.Doubles != 1 {
		t.Errorf("%v, %d", s.DoubleNames, s.Doubles)
	}
}

// A configuration that cannot be sent counts as refused by the gateway, until one can be.
func TestUnsendableConfigurationIsARefusal(t *testing.T) {
	c := newCore()
	c.Connected(0, 1, hello("gw", 1, 1), 0)
	c.Received(0, 1, &link.Heartbeat{Revision: 4})
	c.ConfigSent(1, 5, errors.New("link: encode Config"))
	in := c.Status(0).Gateways[0].InForce
	if in.Revision != 4 || in.Refused != 5 ||
		!strings.Contains(in.Reason, "the agent cannot send it: link: encode Config") {
		t.Errorf("in force %+v", in)
	}
	if err := c.NotEnforced(0); err == nil || !strings.Contains(err.Error(), "gateway gw refuses configuration 5") {
		t.Errorf("alarm: %v", err)
	}
	c.ConfigSent(1, 6, nil)
	if in := c.Status(0).Gateways[0].InForce; in.Refused != 0 || in.Reason != "" {
		t.Errorf("after one that could be sent: %+v", in)
	}
	refusal := &link.Heartbeat{Revision: 4, Refused: 7, Reason: "no"}
	if out := c.Received(0, 1, refusal); len(out.Log) != 1 {
		t.Errorf("a refusal: %+v", out.Log)
	}
	if out := c.Received(0, 1, refusal); len(out.Log) != 0 {
		t.Errorf("the same refusal again: %+v", out.Log)
	}
}

// An agent's knowledge of adaptive pools goes to the next coordinator with Hello; the state of the configuration once
// per stream, and when it changes.
func TestHelloAndReport(t *testing.T) {
	c := newCore()
	before, _ := c.Hello(0)
	c.SetGossipAddress("10.0.0.1:7500")
	c.Connected(0, 1, hello("gw", 1, 1), 0)
	l := leases(1, 40)
	l.Pools = []*controlv1.PoolLease{{Pool: "api", Capacity: 80}}
	if _, err := before.Leases(0, l); err != nil {
		t.Fatal(err)
	}
	to, h := c.Hello(0)
	if h.Agent != "agent" || h.Epoch != 1 || len(h.Pools) != 1 || h.Pools[0].Capacity != 80 ||
		h.Replicas[0].Gossip != "10.0.0.1:7500" {
		t.Errorf("%v", h)
	}
	if r := to.Report(0); r.State == nil || len(r.State.Gateways) != 1 || r.State.Gateways[0].NamesKnown {
		t.Errorf("the first report has %v", r.State)
	}
	if r := to.Report(0); r.State != nil {
		t.Errorf("nothing changed: %v", r.State)
	}
	c.Received(0, 1, &exchange.Names{Identities: []string{"ip"}, Costs: []string{"output"}})
	if r := to.Report(0); r.State == nil || r.State.Gateways[0].Identities[0] != "ip" ||
		r.State.Gateways[0].Costs[0] != "output" {
		t.Errorf("with names: %v", r.State)
	}
	to, _ = c.Hello(0)
	if r := to.Report(0); r.State == nil {
		t.Error("a new stream has no state")
	}
}

// What a gateway reports of its limits is returned on a question, and only then.
func TestAnswer(t *testing.T) {
	c := newCore()
	c.Connected(0, 1, hello("gw", 1, 1), 0)
	c.Received(0, 1, &exchange.Report{
		Interval: time.Second,
		Flows: []exchange.FlowReport{{Tenant: "acme", Pool: "api", Demand: 20, Served: 20,
			Counts: exchange.Counts{Admitted: 20, ClientLimit: 1180}}},
		Limits: []exchange.LimitCounts{{Tenant: "acme", Limit: "per-client", Counts: exchange.Counts{ClientLimit: 1180}}},
		Parts:  1, Clients: []exchange.ClientCount{{Tenant: "acme", Client: "app-7", Limit: "per-client", Count: 1180}},
	})
	for by, want := range map[quotav1.Selection_By]uint64{quotav1.Selection_TENANT: 1180, quotav1.Selection_LIMIT: 1180,
		quotav1.Selection_CLIENT: 1180, quotav1.Selection_GATEWAY: 1180} {
		a := c.Answer(time.Second, &controlv1.Question{Id: 3, Selection: &quotav1.Selection{By: by}})()
		if a.GetId() != 3 || len(a.GetRows()) == 0 || a.GetRows()[0].GetRefused() != want {
			t.Errorf("by %v: %v", by, a)
		}
	}
}

// Another agent that has crashed and is back before its loss was noticed has lost the buckets that it owned. Gateways
// are informed, so that they send it what they have.
func TestReborn(t *testing.T) {
	c := newCore()
	c.Connected(0, 1, hello("gw", 1, 1), 0)
	c.Received(0, 1, &exchange.TokenRequests{List: []exchange.TokenRequest{{Key: 1}}})
	moved := func(now time.Duration) bool {
		c.Round(now, false)
		for _, m := range messages(c.TickTokens(now+100*time.Millisecond), 1) {
			if a, ok := m.(*exchange.TokenAnswers); ok && len(a.Owners.List) == 2 {
				return true
			}
		}
		return false
	}
	c.PeerAlive(0, "other agent", "", true, schedule.Version)
	if !moved(time.Second) {
		t.Error("nothing is said of the first one")
	}
	if moved(2 * time.Second) {
		t.Error("said again without a reason")
	}
	c.PeerAlive(3*time.Second, "other agent", "", true, schedule.Version)
	if !moved(3 * time.Second) {
		t.Error("nothing is said of the new life")
	}
}
