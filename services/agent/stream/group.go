package stream

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
)

// Group keeps a stream to each coordinator, where several share the pools. It finds one of them as a
// [Client] does, learns the others from it, and opens a stream to each. Safe for concurrent use.
type Group struct {
	o     Options
	agent func() Agent // makes the agent's side of a stream
	home  *member      // finds a coordinator while there is no stream

	mu         sync.Mutex
	epoch      int64                 // of addresses
	addresses  []string              // of the coordinators that share the pools; none: one leads all
	others     map[string]*member    // streams other than home's, by address
	configured bool                  // the agent has a configuration: others need not send the whole
	blocked    bool                  // see Client.Block
	start      func(m *member)       // runs a stream; nil: Run has not begun, or ends
	ended      struct{ s, f uint64 } // counts of streams that were given up
}

// member is one stream of a group.
type member struct {
	group     *Group
	client    *Client
	address   string // "" for that of home
	cancel    context.CancelFunc
	connected bool   // something was received
	self      string // the coordinator's own address, "" if it leads all pools
}

// idleEvery is the interval at which home checks whether there is a stream.
const idleEvery = 100 * time.Millisecond

// NewGroup makes a group; Run starts it. agent makes the agent's side of one stream.
func NewGroup(o Options, agent func() Agent) *Group {
	g := &Group{o: o, agent: agent, others: map[string]*member{}}
	g.home = g.member("")
	g.home.client.before = g.wait
	return g
}

// member makes a stream to an address, "" for that of home.
func (g *Group) member(address string) *member {
	m := &member{group: g, address: address}
	o := g.o
	if address != "" {
		o.Addresses = []string{address}
	}
	m.client = New(o, &seen{Agent: g.agent(), m: m})
	m.client.stays, m.client.over = address != "", m.ended
	return m
}

// Run keeps the streams open until ctx ends, or until after Leave.
func (g *Group) Run(ctx context.Context) error {
	var all sync.WaitGroup
	g.mu.Lock()
	g.start = func(m *member) {
		var of context.Context
		of, m.cancel = context.WithCancel(ctx)
		all.Go(func() {
			defer m.cancel()
			_ = m.client.Run(of) // it ends without an error
		})
	}
	g.mu.Unlock()
	err := g.home.client.Run(ctx)
	g.mu.Lock()
	g.start = nil
	g.mu.Unlock()
	all.Wait()
	return err
}

// wait waits while there is a stream other than home's. It is false if ctx ended first, or Leave was called.
func (g *Group) wait(ctx context.Context) bool {
	for g.othersConnected() {
		if !g.home.client.sleep(ctx, idleEvery) {
			return false
		}
	}
	return !g.home.client.left()
}

func (g *Group) othersConnected() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.others {
		if m.connected {
			return true
		}
	}
	return false
}

// Leave sends one more report on each stream and ends them, as Client.Leave does.
func (g *Group) Leave() {
	g.home.client.Leave()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.others {
		m.client.Leave()
	}
}

// Block closes all streams and opens none until it is lifted.
func (g *Group) Block(on bool) {
	g.home.client.Block(on)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.blocked = on
	for _, m := range g.others {
		m.client.Block(on)
	}
}

// Status joins the states of all streams: connected if each of them is; otherwise an unconnected one says why.
func (g *Group) Status() Status {
	all := g.All()
	s := all[0]
	g.mu.Lock()
	s.Streams, s.Failures = g.ended.s, g.ended.f
	g.mu.Unlock()
	for _, one := range all {
		s.Streams, s.Failures = s.Streams+one.Streams, s.Failures+one.Failures
		if !one.Connected {
			s.Connected, s.Address, s.Error = false, one.Address, one.Error
			s.NameInUse = s.NameInUse || one.NameInUse
		}
	}
	return s
}

// All is the status of each stream: that of home, unless the others serve, and the others by address.
func (g *Group) All() []Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []Status
	if g.home.connected || len(g.others) == 0 {
		all = append(all, g.home.client.Status())
	}
	for _, address := range slices.Sorted(maps.Keys(g.others)) {
		s := g.others[address].client.Status()
		s.Address = cmp.Or(s.Address, address)
		all = append(all, s)
	}
	return all
}

// received notes a message of a stream. Coordinators come first on it, or the stream's coordinator leads all pools.
func (m *member) received(r *controlv1.ConnectResponse) {
	g := m.group
	g.mu.Lock()
	defer g.mu.Unlock()
	first := !m.connected
	m.connected = true
	switch c := r.GetCoordinators(); {
	case c != nil:
		m.self = c.GetSelf()
		if c.GetEpoch() >= g.epoch || g.alone(m) {
			g.epoch, g.addresses = c.GetEpoch(), slices.Clone(c.GetAddresses())
		}
	case first && m == g.home:
		m.self, g.epoch, g.addresses = "", 0, nil
	case first: // home is to find it
		g.drop(m)
	case !g.configured && r.GetConfiguration().GetLast():
		g.configured = true
	default:
		return
	}
	g.reconcile()
}

// alone reports whether no other stream has brought anything.
func (g *Group) alone(m *member) bool {
	for _, other := range g.others {
		if other != m && other.connected {
			return false
		}
	}
	return m == g.home || !g.home.connected
}

// ended notes that an attempt has ended. A coordinator that says that it does not lead may only not
// know yet that it does, so it is tried as long as the others name it.
func (m *member) ended() {
	g := m.group
	g.mu.Lock()
	defer g.mu.Unlock()
	m.connected, m.self = false, ""
	g.reconcile()
}

// drop forgets a coordinator that does not share any more.
func (g *Group) drop(m *member) {
	g.addresses = slices.DeleteFunc(g.addresses, func(a string) bool { return a == m.address })
}

// reconcile opens and ends streams so that each coordinator has one. The lock is held.
func (g *Group) reconcile() {
	wanted := map[string]bool{}
	for _, address := range g.addresses {
		wanted[address] = !g.home.connected || g.home.self != address
	}
	for address, m := range g.others {
		if !wanted[address] {
			delete(g.others, address)
			s := m.client.Status()
			g.ended.s, g.ended.f = g.ended.s+s.Streams, g.ended.f+s.Failures
			m.cancel()
		}
	}
	if !g.configured || g.start == nil || g.home.client.left() {
		return
	}
	for address, want := range wanted {
		if want && g.others[address] == nil {
			m := g.member(address)
			g.others[address] = m
			m.client.Block(g.blocked)
			g.start(m)
		}
	}
}

// seen is the agent's side of a stream of a group.
type seen struct {
	Agent
	m *member
}

// Hello opens the stream.
func (s *seen) Hello() *controlv1.Hello {
	h := s.Agent.Hello()
	g := s.m.group
	g.mu.Lock()
	defer g.mu.Unlock()
	g.configured = g.configured || h.GetRevision() > 0
	return h
}

// Receive takes a message.
func (s *seen) Receive(r *controlv1.ConnectResponse) (*controlv1.ConnectRequest, error) {
	answer, err := s.Agent.Receive(r)
	if err == nil {
		s.m.received(r)
	}
	return answer, err
}
