package mesh

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/tally"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// A probe that is under way when memberlist stops ends by its own timeout.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}

// node is an agent without gateways and coordinator: a mesh and a tally.
type node struct {
	t     *testing.T
	name  string
	mesh  *Mesh
	tally *tally.Tally
	stop  func()
}

var start = time.Now()

func now() time.Duration { return time.Since(start) }

func open(t *testing.T, name string, key []byte, join ...string) *node {
	t.Helper()
	return openAt(t, name, uint64(time.Now().UnixNano()), key, join...)
}

// openOld opens an agent that knows version 1 only.
func openOld(t *testing.T, name string, join ...string) *node {
	t.Helper()
	return run(t, name, Options{Incarnation: uint64(time.Now().UnixNano()), Join: join, newest: 1})
}

func openAt(t *testing.T, name string, incarnation uint64, key []byte, join ...string) *node {
	t.Helper()
	return run(t, name, Options{Incarnation: incarnation, Join: join, Key: key})
}

func run(t *testing.T, name string, o Options) *node {
	t.Helper()
	incarnation := o.Incarnation
	n := &node{t: t, name: name, tally: tally.New(tally.Options{Incarnation: incarnation, T1: time.Second, T2: 2 * time.Second})}
	o.Bind = cmp.Or(o.Bind, "127.0.0.1:0")
	o.Name, o.Start, o.Log = "agent-"+name, start, slog.New(slog.DiscardHandler)
	var err error
	if n.mesh, err = Open(o, n.tally); err != nil {
		t.Fatal(err)
	}
	n.tally.Join(now(), name, incarnation, 1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := n.mesh.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	n.stop = func() { cancel(); <-done }
	t.Cleanup(func() { n.stop(); n.mesh.Close() })
	return n
}

func trio(t *testing.T, key []byte) (a, b, c *node) {
	a = open(t, "a", key)
	b = open(t, "b", key, a.mesh.Address())
	c = open(t, "c", key, a.mesh.Address())
	for _, n := range []*node{a, b, c} {
		n.eventually("all three are members", func() bool {
			return n.sums().Replicas == 3 && n.sums().Isolation == exchange.Connected
		})
	}
	return a, b, c
}

func (n *node) sums() *exchange.Sums { return n.tally.Sums(now(), n.name) }

// claim announces as a filter does: again and again, through c.
func (n *node) claim(admitted float64, active float64) {
	incarnation := n.mesh.o.Incarnation
	n.tally.Announce(now(), n.name, incarnation, &exchange.Claims{Keys: []exchange.KeyClaim{
		{Key: 7, Claim: admitted, Active: active, Admitted: admitted, Spent: admitted}}})
	n.mesh.Poke()
}

func (n *node) eventually(what string, f func() bool) {
	n.t.Helper()
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if f() {
			return
		}
		if time.Now().After(end) {
			n.t.Fatalf("%s: never %s: sums %+v, status %+v", n.name, what, n.sums(), n.tally.Status(now()))
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
		n.eventually("knows the delay", func() bool { return n.mesh.Delay() > 0 })
	}
	if p := a.mesh.Peers(); len(p) != 2 || !p[0].Alive || p[0].Name != "agent-b" || p[0].Age < 0 {
		t.Errorf("peers %+v", p)
	}
	if s := a.mesh.Stats(); s.BytesIn == 0 || s.BytesOut == 0 || s.Dropped[Malformed] != 0 || s.Dropped[Forged] != 0 {
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
	a.mesh.Partition(true)
	a.eventually("freezes", func() bool { return a.sums().Isolation == exchange.Frozen })
	if got := a.sums(); got.Replicas != 3 {
		t.Errorf("isolated, yet %d replicas", got.Replicas)
	}
	a.eventually("splits", func() bool { return a.sums().Isolation == exchange.Split })
	b.eventually("drops the silent one at T2", func() bool {
		s := b.sums()
		return b.claims() == 4 && s.Replicas == 2 && s.Isolation == exchange.Connected
	})
	a.mesh.Partition(false)
	a.eventually("is back", func() bool { return a.sums().Isolation == exchange.Connected && a.sums().Replicas == 3 })
	b.eventually("counts it again", func() bool { return b.sums().Replicas == 3 })
	a.claim(8, 1)
	c.eventually("hears its claim", func() bool { return c.claims() == 10 })
	for _, n := range []*node{a, b, c} {
		n.eventually("memberlist is whole", func() bool {
			return !slices.ContainsFunc(n.mesh.Peers(), func(p PeerStatus) bool { return !p.Alive })
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

	c.tally.Drain(now(), "c", c.mesh.o.Incarnation) // its gateway is gone
	c.stop()
	if err := c.mesh.Leave(time.Second); err != nil {
		t.Fatal(err)
	}
	a.eventually("forgets who left", func() bool { return a.claims() == 2 && a.sums().Replicas == 2 })

	crashed := now()
	b.stop()
	b.mesh.Close()
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
	b.mesh.Close()
	again := open(t, "b", nil, a.mesh.Address())
	again.claim(5, 1)
	a.eventually("hears the new life", func() bool { return a.claims() == 5 })
	a.claim(3, 1)
	again.eventually("is spoken to", func() bool { return again.claims() == 3 })
}

func TestOtherKeyIsNotHeard(t *testing.T) {
	t.Parallel()
	a := open(t, "a", bytes.Repeat([]byte{1}, 16))
	b := open(t, "b", bytes.Repeat([]byte{2}, 16), a.mesh.Address())
	if n, err := b.mesh.list.Join([]string{a.mesh.Address()}); err == nil {
		t.Errorf("joined %d with another key", n)
	}
	if got := a.sums().Replicas; got != 1 {
		t.Errorf("%d replicas", got)
	}
}

func TestAddresses(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, bad := range []Options{
		{Name: "x", Bind: "127.0.0.1", Log: log},
		{Name: "x", Bind: "127.0.0.1:99999", Log: log},
		{Name: "x", Bind: "127.0.0.1:0", Advertise: "nowhere", Log: log},
		{Name: "x", Bind: "127.0.0.1:0", Key: []byte("short"), Log: log},
	} {
		if m, err := Open(bad, tally.New(tally.Options{})); err == nil {
			m.Close()
			t.Errorf("%+v: no error", bad)
		}
	}
}

// Every claim is in exactly one packet, and none is too long.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in []*gossipv1.Replica
		for i := range rapid.IntRange(0, 3).Draw(t, "replicas") {
			r := &gossipv1.Replica{Name: fmt.Sprint("gateway-", i), Generation: 1 << 60, Seq: 1 << 60, Weight: 2, Drained: i == 1}
			for k := range rapid.IntRange(0, 120).Draw(t, "keys") {
				r.Keys = append(r.Keys, &gossipv1.KeyClaim{Key: uint64(k), Claim: 1, Active: 1, Admitted: 1, Spent: 1})
			}
			for k := range rapid.IntRange(0, 120).Draw(t, "flows") {
				r.Flows = append(r.Flows, &gossipv1.FlowClaim{Key: uint64(k), Claim: 1})
			}
			in = append(in, r)
		}
		back := map[string]*gossipv1.Replica{}
		for _, body := range split(in, MaxPacket-overhead) {
			if len(body) > MaxPacket-overhead {
				t.Fatalf("%d bytes", len(body))
			}
			p := &gossipv1.Packet{}
			if err := proto.Unmarshal(body, p); err != nil {
				t.Fatal(err)
			}
			for _, r := range p.Replicas {
				if have := back[r.Name]; have != nil {
					have.Keys, have.Flows = append(have.Keys, r.Keys...), append(have.Flows, r.Flows...)
				} else {
					back[r.Name] = r
				}
			}
		}
		for _, r := range in {
			if !proto.Equal(r, back[r.Name]) {
				t.Fatalf("got %v, want %v", back[r.Name], r)
			}
		}
	})
}

func TestHeaderFits(t *testing.T) {
	m := &Mesh{o: Options{Name: string(bytes.Repeat([]byte{'n'}, 256)), Incarnation: 1<<64 - 1}}
	p := &peer{version: current, seq: 1<<64 - 2, lastSeq: 1<<64 - 1, incarnation: 1<<64 - 1}
	if n := len(m.header(1<<62, p, 60*time.Second, true)); n > overhead+256 {
		t.Errorf("a header of %d bytes, budget %d", n, overhead+256)
	}
}

// FuzzReceive: no packet panics, or makes the tally say what nobody can mean.
func FuzzReceive(f *testing.F) {
	seed, err := proto.Marshal(&gossipv1.Packet{Agent: "x", Incarnation: 1, Seq: 1, PromiseMs: 50, Ack: &gossipv1.Ack{Incarnation: 9, Seq: 3},
		Replicas: []*gossipv1.Replica{{Name: "r", Generation: 1, Seq: 1, Weight: 1, Keys: []*gossipv1.KeyClaim{{Key: 7, Claim: 1, Admitted: 2}}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{})
	f.Add([]byte{0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		ta := tally.New(tally.Options{})
		ta.Join(0, "a", 1, 1)
		m := &Mesh{o: Options{Name: "me", Incarnation: 9}, state: ta, peers: map[string]*peer{"x": {version: 1}}}
		m.receiveOpen(b)
		m.receiveSealed(b)
		s := ta.Sums(now(), "a")
		if !(s.TotalWeight > 0) || s.Replicas < 1 {
			t.Fatalf("%+v", s)
		}
		for _, k := range s.Keys {
			if !(k.Claims >= 0) || !(k.Admitted >= 0) {
				t.Fatalf("%+v", k)
			}
		}
	})
}
