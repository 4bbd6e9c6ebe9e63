package gossip

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/titrate/titrate/control/claims"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/core"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
)

// A probe that is under way when memberlist stops ends by its own timeout.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}

// node is an agent without link server and coordinator: gossip and a core.
type node struct {
	t           *testing.T
	name        string
	incarnation uint64
	gossip      *Node
	core        *state
	last        *exchange.Sums
	stop        func()
}

// start is a second ago: what a core does each period is due at once.
var start = time.Now().Add(-time.Second)

func now() time.Duration { return time.Since(start) }

// gatewayLink is the link of a node's only gateway.
const gatewayLink = core.Link(1)

// state is a core behind a lock.
type state struct {
	mu sync.Mutex
	c  *core.Core
}

func newState(name string, incarnation uint64) *state {
	return &state{c: core.New(core.Options{Name: name, Incarnation: incarnation, Period: 50 * time.Millisecond,
		T1: time.Second, T2: 2 * time.Second})}
}

// do calls f with the core.
func (s *state) do(f func(c *core.Core)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.c)
}

func (s *state) PeerSite(name, site string) { s.do(func(c *core.Core) { c.PeerSite(name, site) }) }

func (s *state) PeerAlive(name, address string, newLife bool, version uint8) {
	s.do(func(c *core.Core) { c.PeerAlive(now(), name, address, newLife, version) })
}

func (s *state) PeerFailed(name string) (inOrder bool) {
	s.do(func(c *core.Core) { inOrder = c.PeerFailed(now(), name) })
	return inOrder
}

func (s *state) Round(soon bool) (out []schedule.Outgoing, forgotten []string) {
	s.do(func(c *core.Core) { out, forgotten = c.Round(now(), soon) })
	return out, forgotten
}

func (s *state) LastRound() (out []schedule.Outgoing) {
	s.do(func(c *core.Core) { out = c.LastRound(now()) })
	return out
}

func (s *state) ReceivePackets(packets ...*gossipv1.Packet) (drops []schedule.Drop, soon bool) {
	s.do(func(c *core.Core) {
		var out core.Effects
		drops, out = c.ReceivePackets(now(), packets...)
		soon = out.GossipSoon
	})
	return drops, soon
}

func (s *state) PeerAddresses() (out schedule.Addresses) {
	s.do(func(c *core.Core) { out = c.PeerAddresses(now()) })
	return out
}

func (s *state) status() (out core.Status) {
	s.do(func(c *core.Core) { out = c.Status(now()) })
	return out
}

func open(t *testing.T, name string, key []byte, join ...string) *node {
	t.Helper()
	return run(t, name, uint64(time.Now().UnixNano()), Options{Join: join, Keys: keysOf(key)})
}

func openAt(t *testing.T, name string, incarnation uint64, key []byte, join ...string) *node {
	t.Helper()
	return run(t, name, incarnation, Options{Join: join, Keys: keysOf(key)})
}

func keysOf(key []byte) (keys [][]byte) {
	if key != nil {
		keys = append(keys, key)
	}
	return keys
}

func run(t *testing.T, name string, incarnation uint64, o Options) *node {
	t.Helper()
	o.Bind = cmp.Or(o.Bind, "127.0.0.1:0")
	o.Name, o.Log = "agent-"+name, slog.New(slog.DiscardHandler)
	n := &node{t: t, name: name, incarnation: incarnation, core: newState(o.Name, incarnation), last: &exchange.Sums{}}
	var err error
	if n.gossip, err = Open(o, n.core); err != nil {
		t.Fatal(err)
	}
	n.core.do(func(c *core.Core) {
		c.Connected(now(), gatewayLink, link.Hello{Version: link.Version, Replica: name, Generation: incarnation,
			Weight: 1}, 0)
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := n.gossip.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	n.stop = func() { cancel(); <-done }
	t.Cleanup(func() { n.stop(); n.gossip.Close() })
	return n
}

func trio(t *testing.T, key []byte) (a, b, c *node) {
	a = open(t, "a", key)
	b = open(t, "b", key, a.gossip.Address())
	c = open(t, "c", key, a.gossip.Address())
	for _, n := range []*node{a, b, c} {
		n.eventually("all three are members", func() bool {
			return n.sums().Replicas == 3 && n.sums().Isolation == exchange.Connected
		})
	}
	return a, b, c
}

// sums returns the sums that the node's gateway was sent.
func (n *node) sums() *exchange.Sums {
	n.core.do(func(c *core.Core) {
		for _, f := range c.Tick(now()).Frames {
			if s, ok := f.Message.(*exchange.Sums); ok {
				n.last.Add(s)
			}
		}
	})
	return n.last
}

// claim announces as a filter does: again and again, through c.
func (n *node) claim(admitted float64, active float64) {
	n.core.do(func(c *core.Core) {
		c.Received(now(), gatewayLink, &exchange.Claims{Keys: []exchange.KeyClaim{
			{Key: 7, Claim: admitted, Active: active, Admitted: admitted, Spent: admitted}}})
	})
	n.gossip.SendSoon()
}

func (n *node) eventually(what string, f func() bool) {
	n.t.Helper()
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if f() {
			return
		}
		if time.Now().After(end) {
			n.t.Fatalf("%s: never %s: sums %+v, status %+v", n.name, what, n.sums(), n.core.status())
		}
	}
}

func (n *node) claims() float64 {
	for _, k := range n.sums().Keys {
		if k.Key == 7 {
			return k.Claims
		}
	}
	return 0
}

func TestThreeAgents(t *testing.T) {
	t.Parallel()
	a, b, c := trio(t, bytes.Repeat([]byte{1}, 32))
	a.claim(1, 1)
	b.claim(2, 1)
	c.claim(4, 1)
	for n, want := range map[*node]float64{a: 6, b: 5, c: 3} {
		n.eventually("sums the others", func() bool { return n.claims() == want })
		n.eventually("knows the delay", func() bool { return n.core.status().GossipDelay > 0 })
	}
	if p := a.core.status().Peers; len(p) != 2 || !p[0].Alive || p[0].Name != "agent-b" || p[0].Age < 0 {
		t.Errorf("peers %+v", p)
	}
	if s := a.gossip.Stats(); s.BytesIn == 0 || s.BytesOut == 0 || s.Dropped[schedule.Malformed] != 0 ||
		s.Dropped[schedule.Forged] != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestPartitionAndHeal(t *testing.T) {
	t.Parallel()
	a, b, c := trio(t, nil)
	a.claim(1, 1)
	b.claim(2, 1)
	c.claim(4, 1)
	a.eventually("hears all", func() bool { return a.claims() == 6 })
	a.gossip.Partition(true)
	a.eventually("freezes", func() bool { return a.sums().Isolation == exchange.Frozen })
	if got := a.sums(); got.Replicas != 3 {
		t.Errorf("isolated, yet %d replicas", got.Replicas)
	}
	a.eventually("splits", func() bool { return a.sums().Isolation == exchange.Split })
	b.eventually("drops the silent one at T2", func() bool {
		s := b.sums()
		return b.claims() == 4 && s.Replicas == 2 && s.Isolation == exchange.Connected
	})
	a.gossip.Partition(false)
	a.eventually("is back", func() bool { return a.sums().Isolation == exchange.Connected && a.sums().Replicas == 3 })
	b.eventually("counts it again", func() bool { return b.sums().Replicas == 3 })
	a.claim(8, 1)
	c.eventually("hears its claim", func() bool { return c.claims() == 10 })
	for _, n := range []*node{a, b, c} {
		n.eventually("memberlist is whole", func() bool {
			return !slices.ContainsFunc(n.core.status().Peers, func(p schedule.PeerStatus) bool { return !p.Alive })
		})
	}
}

func TestCrashAndLeave(t *testing.T) {
	t.Parallel()
	a, b, c := trio(t, nil)
	a.claim(1, 1)
	b.claim(2, 1)
	c.claim(4, 1)
	a.eventually("hears all", func() bool { return a.claims() == 6 })

	c.core.do(func(k *core.Core) { // its gateway is gone
		k.Disconnected(now(), gatewayLink)
		k.Exited(now(), core.Process{Gateway: "c", Generation: c.incarnation})
	})
	c.stop()
	if err := c.gossip.Leave(time.Second); err != nil {
		t.Fatal(err)
	}
	a.eventually("forgets who left", func() bool { return a.claims() == 2 && a.sums().Replicas == 2 })

	crashed := now()
	b.stop()
	b.gossip.Close()
	a.eventually("forgets who crashed", func() bool { return a.claims() == 0 })
	if held := now() - crashed; held < 1900*time.Millisecond {
		t.Errorf("the claim of a crashed replica was held for %v, want T2 = 2s", held)
	}
}

// A restarted agent comes back under its name with another port.
func TestRestart(t *testing.T) {
	t.Parallel()
	a, b, _ := trio(t, nil)
	b.stop()
	b.gossip.Close()
	again := open(t, "b", nil, a.gossip.Address())
	again.claim(5, 1)
	a.eventually("hears the new life", func() bool { return a.claims() == 5 })
	a.claim(3, 1)
	again.eventually("is spoken to", func() bool { return again.claims() == 3 })
}

func TestOtherKeyIsNotHeard(t *testing.T) {
	t.Parallel()
	a := open(t, "a", bytes.Repeat([]byte{1}, 16))
	b := open(t, "b", bytes.Repeat([]byte{2}, 16), a.gossip.Address())
	if n, err := b.gossip.list.Join([]string{a.gossip.Address()}); err == nil {
		t.Errorf("joined %d with another key", n)
	}
	a.eventually("is alone", func() bool { return a.sums().Replicas == 1 })
	if peers := a.core.status().Peers; len(peers) != 0 {
		t.Errorf("peers %v", peers)
	}
	for _, n := range []*node{a, b} {
		n.eventually("counts what does not open", func() bool { return n.gossip.Stats().Dropped[schedule.Unopened] > 0 })
		if err := n.gossip.Unopened(); err == nil || !strings.Contains(err.Error(), "of 127.0.0.1:") {
			t.Errorf("%s: %v, want the address of the other", n.name, err)
		}
	}
}

// Of two agents, one has no key. Each counts what it cannot open.
func TestAnAgentWithoutAKeyIsNamed(t *testing.T) {
	t.Parallel()
	a := open(t, "a", bytes.Repeat([]byte{1}, 16))
	b := open(t, "b", nil, a.gossip.Address())
	for _, n := range []*node{a, b} {
		n.eventually("counts what does not open", func() bool { return n.gossip.Unopened() != nil })
	}
}

// An agent whose key is taken out of use is a member whose packets do not open any more.
func TestAMemberWithAnOldKeyIsNamed(t *testing.T) {
	t.Parallel()
	first, second := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	a, b, _ := trio(t, first)
	if err := a.gossip.Rotate([][]byte{second}); err != nil {
		t.Fatal(err)
	}
	b.claim(1, 1)
	a.eventually("counts what does not open", func() bool { return a.gossip.Unopened() != nil })
	if n := a.gossip.Stats().Dropped[schedule.Forged]; n != 0 {
		t.Errorf("%d packets count as forged", n)
	}
}

// An agent of another label of memberlist is counted, and not taken for one with a wrong key.
func TestAnotherLabelIsForeign(t *testing.T) {
	t.Parallel()
	a := open(t, "a", nil)
	other := memberlist.DefaultLocalConfig()
	other.Name, other.BindAddr, other.BindPort, other.Label = "other", "127.0.0.1", 0, "others"
	other.Logger = log.New(io.Discard, "", 0)
	list, err := memberlist.Create(other)
	if err != nil {
		t.Fatal(err)
	}
	defer list.Shutdown()
	if n, err := list.Join([]string{a.gossip.Address()}); err == nil {
		t.Errorf("joined %d of another label", n)
	}
	a.eventually("counts it", func() bool { return a.gossip.Stats().Dropped[schedule.Foreign] > 0 })
	if err := a.gossip.Unopened(); err != nil {
		t.Error(err)
	}
}

func TestUnopenedPacketsAreLoggedOnceAMinute(t *testing.T) {
	var out bytes.Buffer
	m, err := Open(Options{Name: "a", Bind: "127.0.0.1:0", Log: slog.New(slog.NewTextHandler(&out, nil))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.list.Shutdown()
	for range 1000 {
		fmt.Fprintf(lines{m}, "[ERR] memberlist: Decrypt packet failed: any reason from=10.1.2.3:7500\n")
	}
	if n := strings.Count(out.String(), "10.1.2.3:7500 do not open"); n != 1 || m.Stats().Dropped[schedule.Unopened] != 1000 {
		t.Errorf("%d lines, %v counted:\n%.500s", n, m.Stats().Dropped, out.String())
	}
}

// The gossip key is replaced while agents run, agent by agent, and no agent is deaf to another at any time.
func TestRotate(t *testing.T) {
	t.Parallel()
	first, second := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	a, b, c := trio(t, first)
	all, claimed := []*node{a, b, c}, 0.
	for _, keys := range [][][]byte{{first, second}, {second, first}, {second}} {
		for _, n := range all {
			if err := n.gossip.Rotate(keys); err != nil || n.gossip.Keys() != len(keys) {
				t.Fatal(err, n.gossip.Keys())
			}
			claimed++
			n.claim(claimed, 1)
			for _, other := range all {
				if other != n {
					other.eventually("hears who has other keys", func() bool { return other.claims() >= claimed })
				}
			}
		}
	}
	for _, n := range all {
		if dropped := n.gossip.Stats().Dropped[schedule.Unopened]; dropped != 0 {
			t.Errorf("%s could not open %d frames", n.name, dropped)
		}
	}
	d := open(t, "d", second, a.gossip.Address())
	d.eventually("has joined with the new key", func() bool { return d.sums().Replicas == 4 })
	open(t, "e", first, a.gossip.Address())
	if err := a.gossip.Rotate([][]byte{second, []byte("short")}); err == nil || a.gossip.Keys() != 1 {
		t.Errorf("a short key: %v, %d keys", err, a.gossip.Keys())
	}
	if err := a.gossip.Rotate(nil); err == nil {
		t.Error("encryption has ended")
	}
	if n := d.sums().Replicas; n != 4 {
		t.Errorf("%d replicas with one that has the old key", n)
	}
}

// However many keys are taken out of use at once, none of them is read any more.
func TestManyKeysEnd(t *testing.T) {
	t.Parallel()
	var keys [][]byte
	for i := range byte(6) {
		keys = append(keys, bytes.Repeat([]byte{i}, 32))
	}
	n := run(t, "a", 1, Options{Keys: keys})
	if err := n.gossip.Rotate(keys[5:]); err != nil {
		t.Fatal(err)
	}
	if left := n.gossip.ring.GetKeys(); len(left) != 1 || n.gossip.Keys() != 1 {
		t.Errorf("%d keys are read, %d are in use, want 1", len(left), n.gossip.Keys())
	}
}

func TestAddresses(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, bad := range []Options{
		{Name: "x", Bind: "127.0.0.1", Log: log},
		{Name: "x", Bind: "127.0.0.1:99999", Log: log},
		{Name: "x", Bind: "127.0.0.1:0", Advertise: "nowhere", Log: log},
		{Name: "x", Bind: "127.0.0.1:0", Keys: keysOf([]byte("short")), Log: log},
	} {
		if m, err := Open(bad, newState("x", 1)); err == nil {
			m.Close()
			t.Errorf("%+v: no error", bad)
		}
	}
}

// FuzzReceive: no packet panics, or makes the core send what nobody can mean.
func FuzzReceive(f *testing.F) {
	seed, err := proto.Marshal(&gossipv1.Packet{Agent: "x", Incarnation: 1, Seq: 1, PromiseMs: 50,
		Ack: &gossipv1.Ack{Incarnation: 9, Seq: 3},
		Replicas: []*gossipv1.Replica{{Name: "r", Generation: 1, Seq: 1, Weight: 1, Keys: []*gossipv1.KeyClaim{{Key: 7,
			Claim: 1, Admitted: 2, Spent: 2, Own: 1}}}}})
	if err != nil {
		f.Fatal(err)
	}
	sums, err := proto.Marshal(&gossipv1.Packet{Agent: "x", Incarnation: 1, Seq: 1, PromiseMs: 50, LateMs: 9,
		Ack:  &gossipv1.Ack{Incarnation: 9, Seq: 3, Earlier: 5},
		Sums: []*gossipv1.Sum{{Key: 7, Claims: 1, Admitted: 2, Spent: 1, Own: 1, Gap: -3, Others: 2}}})
	if err != nil {
		f.Fatal(err)
	}
	for _, b := range [][]byte{seed, sums, {}, {0xff, 0xff, 0xff}} {
		f.Add(b, uint8(0))
		f.Add(b, schedule.Version)
	}
	self, err := newIdentity(current)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte, version uint8) {
		n := &node{core: newState("me", 9), last: &exchange.Sums{}}
		n.core.do(func(c *core.Core) {
			c.Connected(now(), gatewayLink, link.Hello{Replica: "a", Weight: 1}, 0)
			c.PeerAlive(now(), "x", "", true, version)
		})
		sealed, err := self.with(version, self.private.PublicKey().Bytes(), nil)
		if err != nil {
			t.Fatal(err)
		}
		m := &Node{o: Options{Name: "me"}, state: n.core, wire: &transport{},
			contacts: map[string]*contact{"x": {version: version, session: sealed}}}
		m.wire.cut.Store(true)
		m.receive(b, sealed)
		m.receiveSealed(b)
		s := n.sums()
		if !(s.TotalWeight > 0) || s.Replicas < 1 {
			t.Fatalf("%+v", s)
		}
		for _, k := range s.Keys {
			if !(k.Claims >= 0) || !(k.Admitted >= 0) || !(k.Own >= 0) || !(math.Abs(k.Gap) <= claims.MaxGap) {
				t.Fatalf("%+v", k)
			}
		}
	})
}

// memberlist finds two agents of one name with each of their messages: that is logged once a minute.
func TestTwoAgentsOfOneNameAreLoggedOnce(t *testing.T) {
	var out bytes.Buffer
	m, err := Open(Options{Name: "twin", Bind: "127.0.0.1:0", Log: slog.New(slog.NewTextHandler(&out, nil))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.list.Shutdown()
	before := strings.Count(out.String(), "\n")
	for range 1000 {
		conflicts{m}.NotifyConflict(&memberlist.Node{Name: "twin"}, &memberlist.Node{Name: "twin"})
	}
	if n := strings.Count(out.String(), "\n") - before; n != 1 {
		t.Errorf("%d lines:\n%.500s", n, out.String())
	}
}

// Agents learn each other's sites with their names.
func TestSiteOfMeta(t *testing.T) {
	i, err := newIdentity(current)
	if err != nil {
		t.Fatal(err)
	}
	for _, site := range []string{"", "eu-west_1.a", strings.Repeat("x", maxSite)} {
		i.site = site
		if version, public := i.agree(i.meta()); version != current || len(public) != keyBytes {
			t.Errorf("site %q: version %d, a key of %d bytes", site, version, len(public))
		}
		if got := siteOf(i.meta()); got != site {
			t.Errorf("site %q, want %q", got, site)
		}
	}
	for _, meta := range [][]byte{nil, []byte("x"), append(i.meta(), 'x'), append(i.meta()[:2+keyBytes], 0xff)} {
		if got := siteOf(meta); got != "" {
			t.Errorf("site %q of a meta that says none", got)
		}
	}
}
