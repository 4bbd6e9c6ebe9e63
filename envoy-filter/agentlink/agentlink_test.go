package agentlink

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/proto/link"
)

// fixture is a client in a goroutine and the listener that it dials.
type fixture struct {
	t        *testing.T
	client   *Client
	engine   *limiter.Engine
	listener net.Listener
	ahead    atomic.Int64 // of the engine's clock, nanoseconds
	mu       sync.Mutex
	log      strings.Builder
}

func newFixture(t *testing.T) *fixture {
	return fixtureOf(t, limiter.New(limiter.Options{Keys: 1024}))
}

func fixtureOf(t *testing.T, engine *limiter.Engine) *fixture {
	t.Helper()
	return fixtureWith(t, engine, nil)
}

func fixtureWith(t *testing.T, engine *limiter.Engine, beside Counters, more ...func(*Options)) *fixture {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	b := &fixture{t: t, engine: engine, listener: l}
	began := time.Now()
	o := Options{
		Socket: socket, Engine: b.engine, Counters: beside, Hello: link.Hello{Replica: "gw", Generation: 5, Weight: 2},
		Now: func() int64 { return int64(time.Since(began)) + b.ahead.Load() },
		RecoverPanic: func(string) {
			if p := recover(); p != nil {
				b.write("panic")
			}
		},
		Log: b.write,
	}
	for _, f := range more {
		f(&o)
	}
	b.client = New(o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.client.Run(ctx) }()
	t.Cleanup(func() { cancel(); l.Close(); <-done })
	return b
}

func (b *fixture) write(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log.WriteString(text + "\n")
}

// session is the agent's end of one connection.
type session struct {
	t     *testing.T
	conn  net.Conn
	r     *link.Reader
	w     *link.Writer
	hello *link.Hello // of the filter
}

func (b *fixture) accept(hello link.Message) *session {
	b.t.Helper()
	conn, err := b.listener.Accept()
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	s := &session{b.t, conn, link.NewReader(link.Alive(conn, 5*time.Second)), link.NewWriter(conn), nil}
	m, err := s.r.Next()
	h, ok := m.(*link.Hello)
	if err != nil || !ok || h.Replica != "gw" || h.Generation != 5 || h.Weight != 2 || h.Version != link.Version {
		b.t.Fatalf("the filter begins with %+v, %v", m, err)
	}
	s.hello = h
	s.send(hello)
	return s
}

var hello = &link.Hello{Version: link.Version, Replica: "agent", Weight: 1}

func (s *session) send(m link.Message) {
	s.t.Helper()
	if err := s.w.Write(m); err != nil {
		s.t.Fatal(err)
	}
}

// sendNewer sends a configuration with a field of a newer version: other replaces name.
func (s *session) sendNewer(c *config.Config, name, other string) {
	s.t.Helper()
	payload, err := json.Marshal(c)
	if err != nil {
		s.t.Fatal(err)
	}
	payload = bytes.ReplaceAll(payload, []byte(name), []byte(other))
	const kindConfig = 2
	frame := append(binary.LittleEndian.AppendUint32(nil, uint32(len(payload))), link.Version, kindConfig, 0, 0)
	if _, err := s.conn.Write(append(frame, payload...)); err != nil {
		s.t.Fatal(err)
	}
}

// await reads until a message satisfies f.
func await[M link.Message](s *session, f func(M) bool) M {
	s.t.Helper()
	for {
		m, err := s.r.Next()
		if err != nil {
			s.t.Fatalf("waiting for a %T: %v", *new(M), err)
		}
		if m, ok := m.(M); ok && f(m) {
			return m
		}
	}
}

var configuration = &config.Config{
	Revision: 3, Seed: 1, Pools: []config.Pool{{Name: "api", Capacity: 100}},
	Tenants: []config.Tenant{{Name: "acme", Weight: 1, Limits: []config.Limit{{Name: "l", Rate: 1, Burst: 2}}}},
}

func TestStateInAndOut(t *testing.T) {
	b := newFixture(t)
	s := b.accept(hello)
	s.send(configuration)
	s.send(&exchange.Shares{Epoch: 2, Flows: []exchange.Share{{Tenant: "acme", Pool: "api", Share: 50}}})
	s.send(&exchange.Sums{Full: true, Replicas: 2, TotalWeight: 2, Weight: 1, Lag: 100 * time.Millisecond})
	await(s, func(h *link.Heartbeat) bool { return h.Revision == 3 })
	b.engine.Decide(b.client.o.Now(), &limiter.Request{Tenant: "acme", Client: "a", Pool: "api", Cost: 1})
	await(s, func(r *exchange.Report) bool {
		return len(r.Flows) == 1 && r.Flows[0].Tenant == "acme" && r.Flows[0].Served == 1
	})
	s.sendNewer(&config.Config{Revision: 4, Pools: []config.Pool{{Name: "api", Capacity: 1, OnLoss: config.Open}}},
		"OPEN", "WISHFUL")
	h := await(s, func(h *link.Heartbeat) bool { return h.Refused == 4 })
	if h.Revision != 3 || !strings.Contains(h.Reason, `pools[api].on_loss is "WISHFUL"`) {
		t.Errorf("after a wrong configuration: %+v", h)
	}
	s.send(configuration)
	await(s, func(h *link.Heartbeat) bool { return h.Refused == 0 && h.Reason == "" })
}

// A process that does not see the ends of requests, a rate limit service, leaves limits with a concurrency out.
func TestConcurrencyIsLeftOut(t *testing.T) {
	b := newFixture(t)
	s := b.accept(hello)
	c := *configuration
	c.Revision = 7
	c.Tenants = append(c.Tenants, config.Tenant{Name: "many", Weight: 1, Limits: []config.Limit{
		{Name: "flight", Concurrency: 2}, {Name: "rate", Rate: 5}}})
	s.send(&c)
	r := await(s, func(r *link.Refused) bool { return r.Revision == 7 })
	if r.Total != 1 || r.Limits[0].Limit != "flight" || !strings.Contains(r.Limits[0].Reason, "rate limit service") {
		t.Errorf("%+v", r)
	}
	if h := await(s, func(h *link.Heartbeat) bool { return h.Revision == 7 }); h.Features != exchange.FeatureOverrides {
		t.Errorf("features %q", h.Features)
	}
}

// Requests wait for slots only if the agent passes messages about slots on; else the limit refuses them as cut off.
func TestSlotsNeedAnAgentThatTakesThem(t *testing.T) {
	for _, takes := range []bool{false, true} {
		bell := NewBell()
		engine := limiter.New(limiter.Options{Keys: 1024, Ask: bell.Ring})
		b := fixtureWith(t, engine, nil, func(o *Options) {
			o.Asked, o.Answer = bell, func(m *exchange.TokenAnswers) { engine.AnswerTokens(0, m, nil) }
			o.AnswerSlots = func(*exchange.SlotReplies) {}
		})
		s := b.accept(&link.Hello{Version: link.Version, Replica: "agent", Weight: 1, Tokens: true, Slots: takes})
		s.send(&exchange.TokenAnswers{Owners: exchange.Owners{View: 1, List: []exchange.Owner{{Hash: 1, Life: 9}}}})
		s.send(&config.Config{Revision: 7, Pools: []config.Pool{{Name: "api", Capacity: 100}},
			Tenants: []config.Tenant{{Name: "many", Weight: 1, Limits: []config.Limit{{Name: "flight", Concurrency: 2}}}}})
		await(s, func(h *link.Heartbeat) bool { return h.Revision == 7 })
		r := limiter.Request{Tenant: "many", Client: "c", Pool: "api"}
		out := engine.Decide(1, &r)
		if want := map[bool]limiter.Verdict{false: limiter.Reject, true: limiter.Wait}[takes]; out.Verdict != want {
			t.Errorf("the agent takes messages about slots: %v; %+v", takes, out)
		}
		if takes {
			engine.Enqueue(1, &r, 1)
			await(s, func(m *exchange.SlotAsks) bool { return m.Owner == 9 })
		}
	}
}

// Owners wait until a gateway has registered: also a process without slots says so at once.
func TestRegisteredWithoutSlots(t *testing.T) {
	for _, slots := range []bool{false, true} {
		bell := NewBell()
		engine := limiter.New(limiter.Options{Keys: 1024, Ask: bell.Ring})
		b := fixtureWith(t, engine, nil, func(o *Options) {
			o.Asked, o.Answer = bell, func(m *exchange.TokenAnswers) { engine.AnswerTokens(0, m, nil) }
			if slots {
				o.AnswerSlots = func(*exchange.SlotReplies) {}
			}
		})
		s := b.accept(&link.Hello{Version: link.Version, Replica: "agent", Weight: 1, Tokens: true, Slots: true})
		s.send(&exchange.TokenAnswers{Owners: exchange.Owners{View: 5, List: []exchange.Owner{{Hash: 1, Life: 9}}}})
		await(s, func(m *exchange.TokenRequests) bool { return m.Registered == 5 })
	}
}

// A part of a configuration that this filter cannot read, or that is not valid, is
// left out and reported; the rest holds. After a new link it is reported again.
func TestLeftOutIsReported(t *testing.T) {
	b := newFixture(t)
	s := b.accept(hello)
	c := *configuration
	c.Revision = 7
	many := make([]config.Limit, config.MaxLimits+1)
	for i := range many {
		many[i] = config.Limit{Name: fmt.Sprint("l", i), Rate: 1}
	}
	c.Tenants = append(c.Tenants, config.Tenant{Name: "many", Weight: 1, Limits: many},
		config.Tenant{Name: "bad", Weight: 1,
			Limits: []config.Limit{{Name: "minus", Rate: -1}, {Name: "loud", Rate: 1, Mode: config.Shadow}},
			Quotas: []config.Quota{{Pool: "nowhere"}}})
	want := []config.LeftOut{{Tenant: "many", Limit: "l64"}, {Tenant: "bad", Limit: "minus"},
		{Tenant: "bad", Limit: "loud"}, {Tenant: "bad", Limit: "quotas/nowhere"}}
	check := func(r *link.Refused) {
		t.Helper()
		if r.Total != len(want) || len(r.Limits) != len(want) {
			t.Fatalf("reported %+v", r)
		}
		for i, l := range r.Limits {
			if l.Tenant != want[i].Tenant || l.Limit != want[i].Limit || l.Reason == "" {
				t.Errorf("reported %+v, want %+v", l, want[i])
			}
		}
	}
	s.sendNewer(&c, "SHADOW", "LOUD")
	check(await(s, func(r *link.Refused) bool { return r.Revision == 7 }))
	if h := await(s, func(h *link.Heartbeat) bool { return h.Sequence > 0 }); h.Revision != 7 || h.Refused != 0 {
		t.Errorf("in force: %+v", h)
	}
	now := b.client.o.Now()
	for i, want := range []limiter.Verdict{limiter.Admit, limiter.Admit, limiter.Reject} {
		r := &limiter.Request{Tenant: "acme", Client: "a", Pool: "api", Cost: 1}
		if out := b.engine.Decide(now, r); out.Verdict != want {
			t.Errorf("request %d of another tenant: %v, want %v", i, out.Verdict, want)
		}
	}
	s.conn.Close()
	s = b.accept(hello)
	check(await(s, func(*link.Refused) bool { return true }))
	s.send(configuration)
	if r := await(s, func(r *link.Refused) bool { return r.Revision == configuration.Revision }); r.Total != 0 {
		t.Errorf("after a whole configuration: %+v", r)
	}
}

// An agent that has just connected receives all claims, also those of inactive keys.
func TestClaimsOnANewLink(t *testing.T) {
	b := newFixture(t)
	s := b.accept(hello)
	slow := *configuration
	slow.Tenants = []config.Tenant{{Name: "acme", Weight: 1, Limits: []config.Limit{{Name: "l", Rate: 1e-3, Burst: 2}}}}
	// Before the configuration, whose revision says that both have been taken: one gateway claims nothing.
	s.send(&exchange.Sums{Full: true, Replicas: 2, TotalWeight: 2, Weight: 1, Lag: 50 * time.Millisecond})
	s.send(&slow)
	await(s, func(h *link.Heartbeat) bool { return h.Revision == 3 })
	for range 2 {
		b.engine.Decide(b.client.o.Now(), &limiter.Request{Tenant: "acme", Client: "a", Pool: "api", Cost: 1})
	}
	claimed := func(c *exchange.Claims) bool { return len(c.Keys) == 1 && c.Keys[0].Claim > 0 }
	first := await(s, claimed).Keys[0]
	b.ahead.Store(int64(10 * time.Second)) // the client has gone
	await(s, func(c *exchange.Claims) bool { return len(c.Keys) == 1 && c.Keys[0].Claim == 0 })
	s.conn.Close()
	next := b.accept(hello)
	if s.hello.Again || !next.hello.Again {
		t.Errorf("the first link says again: %v, the next one: %v", s.hello.Again, next.hello.Again)
	}
	again := await(next, func(c *exchange.Claims) bool { return len(c.Keys) == 1 }).Keys[0]
	if again.Key != first.Key || again.Admitted != 2 || again.Claim != 0 {
		t.Errorf("on a new link %+v is announced, before %+v", again, first)
	}
}

// A change affects only the tenants that it names. A change of another revision is refused, and the whole
// configuration repairs this. Limits of other tenants that are left out stay reported.
func TestChanges(t *testing.T) {
	b := newFixture(t)
	s := b.accept(hello)
	limit := func(name string, rate float64) []config.Limit {
		return []config.Limit{{Name: name, Rate: rate, Burst: rate}}
	}
	c := *configuration
	c.Pools = []config.Pool{{Name: "api", Capacity: 1000}} // so that limits decide, and not the share
	c.Defaults = limit("minus", -1)
	c.Tenants = append(c.Tenants, config.Tenant{Name: "bad", Limits: limit("minus", -1)},
		config.Tenant{Name: "worse", Limits: limit("minus", -1)}, config.Tenant{Name: config.DefaultTenant})
	s.send(&c)
	reported := func(revision int64, tenants ...string) {
		t.Helper()
		r := await(s, func(r *link.Refused) bool { return r.Revision == revision })
		var got []string
		for _, l := range r.Limits {
			got = append(got, l.Tenant)
		}
		if !slices.Equal(got, tenants) {
			t.Errorf("revision %d leaves out limits of %q, want %q", revision, got, tenants)
		}
	}
	admitted := func(tenant string, want int) {
		t.Helper()
		n := 0
		for range 20 {
			r := &limiter.Request{Tenant: tenant, Client: "a", Pool: "api", Cost: 1}
			if b.engine.Decide(b.client.o.Now(), r).Verdict == limiter.Admit {
				n++
			}
		}
		if n != want {
			t.Errorf("%s: %d of 20 requests pass, want %d", tenant, n, want)
		}
	}
	reported(3, "-", "bad", "worse")
	s.send(&config.Delta{Base: 3, Revision: 4, Removed: []string{"worse"}, Tenants: []config.Tenant{
		{Name: "bad", Limits: limit("plus", 5)}, {Name: "new", Limits: limit("minus", -1)},
		{Name: config.DefaultTenant, Weight: 2}}})
	reported(4, "-", "new")
	admitted("bad", 5)
	admitted("acme", 2)
	s.send(&config.Delta{Base: 3, Revision: 9, Removed: []string{"acme"}})
	h := await(s, func(h *link.Heartbeat) bool { return h.Refused == 9 })
	if h.Revision != 4 || !strings.Contains(h.Reason, "a change of revision 3, but revision 4 is in force") {
		t.Errorf("after a change of another revision: %+v", h)
	}
	s.send(&config.Delta{Base: 4, Revision: 10, Shared: &config.Shared{Pools: c.Pools, Defaults: limit("each", 3)}})
	reported(10, "new")
	admitted("new", 3)
	s.send(&config.Delta{Base: 10, Revision: 11, Shared: &config.Shared{Pools: []config.Pool{{Name: "api"}}}})
	await(s, func(h *link.Heartbeat) bool { return h.Refused == 11 && h.Revision == 10 })
	s.send(&config.Delta{Base: 10, Revision: 12, Removed: []string{"new"}})
	reported(12)
	whole := *configuration
	whole.Revision = 13
	s.send(&whole)
	await(s, func(h *link.Heartbeat) bool { return h.Revision == 13 && h.Refused == 0 })
}

// The names in the filter's settings are sent once, and when they change.
func TestNamesAreSent(t *testing.T) {
	b := newFixture(t)
	b.engine.Name(limiter.Names{Identities: [limiter.MaxIdentities]string{1: "ip"},
		Classes: [limiter.MaxClasses]string{0: "writes"}, Costs: [limiter.MaxCosts]string{2: "output"}})
	s := b.accept(hello)
	if n := await(s, func(*exchange.Names) bool { return true }); !slices.Equal(n.Identities, []string{"ip"}) ||
		!slices.Equal(n.Classes, []string{"writes"}) || !slices.Equal(n.Costs, []string{"output"}) {
		t.Errorf("sent %+v", n)
	}
	b.engine.Name(limiter.Names{})
	if n := await(s, func(*exchange.Names) bool { return true }); len(n.Identities)+len(n.Classes)+len(n.Costs) != 0 {
		t.Errorf("sent %+v after they were gone", n)
	}
}

// Whatever the agent does wrong ends that connection, and a new one comes.
func TestBadAgents(t *testing.T) {
	b := newFixture(t)
	for _, misbehave := range []func(){
		func() { b.accept(hello).conn.Close() },
		func() { b.accept(&link.Heartbeat{}) },
		func() { b.accept(&link.Hello{Version: link.Version + 2, Replica: "agent"}) },
		func() { b.accept(hello).send(&exchange.Claims{}) },
		func() { b.accept(hello).conn.Write(make([]byte, 100)) },
	} {
		misbehave()
		s := b.accept(hello)
		await(s, func(*link.Heartbeat) bool { return true })
		s.conn.Close()
	}
	if n := b.client.Malformed.Load(); n != 1 {
		t.Errorf("%d malformed, want 1", n)
	}
}

// A panic in the link's goroutines ends the session only. A nil engine panics
// when it is asked for claims.
func TestPanicEndsTheSessionOnly(t *testing.T) {
	b := fixtureOf(t, nil)
	for range 2 {
		s := b.accept(hello)
		for {
			if _, err := s.r.Next(); err != nil {
				break
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !strings.Contains(b.log.String(), "panic") {
		t.Errorf("no panic was contained:\n%s", &b.log)
	}
}

// The log has the reason if a link ends because this side could not write.
func TestWriteErrorIsLogged(t *testing.T) {
	b := newFixture(t)
	b.engine.Name(limiter.Names{Identities: [limiter.MaxIdentities]string{strings.Repeat("x", 1<<16)}})
	for range 2 { // the second connection comes once the end of the first is logged
		b.accept(hello)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !strings.Contains(b.log.String(), "send to the agent: link: encode Names:") {
		t.Errorf("the log:\n%s", &b.log)
	}
}

// counters has one key outside the engine, whose claim is sent again and again.
type counters struct {
	repeats atomic.Int32
	sums    chan exchange.KeySum
}

func (c *counters) Claims(to *exchange.Claims) {
	to.Keys = append(to.Keys, exchange.KeyClaim{Key: 77, Admitted: float64(c.repeats.Load())})
}

func (c *counters) Repeat() { c.repeats.Add(1) }

func (c *counters) SetSums(s *exchange.Sums) {
	for _, k := range s.Keys {
		c.sums <- k
	}
	s.Keys = nil
}

// Claims of Counters are announced and repeated on a new link, and Counters receives the sums.
func TestCountersBesideTheEngine(t *testing.T) {
	beside := &counters{sums: make(chan exchange.KeySum, 10)}
	b := fixtureWith(t, limiter.New(limiter.Options{Keys: 1024}), beside)
	for links := range 2 {
		s := b.accept(hello)
		await(s, func(c *exchange.Claims) bool {
			return len(c.Keys) == 1 && c.Keys[0] == exchange.KeyClaim{Key: 77, Admitted: float64(links + 1)}
		})
		s.send(&exchange.Sums{Full: true, Replicas: 2, Keys: []exchange.KeySum{{Key: 77, Admitted: 5, Spent: 5}}})
		if k := <-beside.sums; k.Key != 77 || k.Admitted != 5 {
			t.Errorf("received %+v", k)
		}
		s.conn.Close()
	}
}
