package envoytest

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
)

// agent acts as `titrate agent`: it sends the test's messages and records the filter's.
type agent struct {
	t        *testing.T
	listener net.Listener
	mu       sync.Mutex
	state    []link.Message // sent on every new connection
	slots    *slotOwner     // nil: the agent takes no messages about slots
	conns    []net.Conn
	writers  []*link.Writer
	hellos   []*link.Hello
	beats    []*link.Heartbeat
	reports  []*exchange.Report
	decided  []exchange.Decision
	// spent is the filter's last report of each key.
	spent map[uint64]exchange.KeySpent
}

func startAgent(t *testing.T, socket string, state ...link.Message) *agent {
	t.Helper()
	return startAgentWith(t, socket, nil, state...)
}

func startAgentWith(t *testing.T, socket string, slots *slotOwner, state ...link.Message) *agent {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{t: t, listener: l, state: state, slots: slots}
	t.Cleanup(a.kill)
	go a.accept()
	return a
}

func (a *agent) accept() {
	for {
		conn, err := a.listener.Accept()
		if err != nil {
			return
		}
		go a.serve(conn)
	}
}

func (a *agent) serve(conn net.Conn) {
	defer conn.Close()
	r, w := link.NewReader(conn), link.NewWriter(conn)
	m, err := r.Next()
	hello, ok := m.(*link.Hello)
	if err != nil || !ok {
		return
	}
	a.mu.Lock()
	a.hellos = append(a.hellos, hello)
	err = w.Write(&link.Hello{Version: link.Version, Replica: "agent", Generation: 1, Weight: 1,
		Decisions: true, Tokens: a.slots != nil, Slots: a.slots != nil})
	for _, m := range a.state {
		if err == nil {
			err = w.Write(m)
		}
	}
	a.conns, a.writers = append(a.conns, conn), append(a.writers, w)
	a.mu.Unlock()
	for err == nil {
		if m, err = r.Next(); err == nil {
			a.keep(m)
			a.mu.Lock()
			switch m := m.(type) {
			case *link.Heartbeat:
				err = w.Write(&link.Heartbeat{})
			case *exchange.SlotAsks:
				err = w.Write(a.slots.answer(m))
			}
			a.mu.Unlock()
		}
	}
}

func (a *agent) keep(m link.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch m := m.(type) {
	case *link.Heartbeat:
		a.beats = append(a.beats, m)
	case *exchange.Report:
		a.reports = append(a.reports, m)
	case *exchange.Decisions:
		a.decided = append(a.decided, m.List...)
	case *exchange.Spent:
		if a.spent == nil {
			a.spent = map[uint64]exchange.KeySpent{}
		}
		for _, k := range m.Keys {
			a.spent[k.Key] = k
		}
	}
}

// send sends messages on the latest connection, and on all new ones.
func (a *agent) send(state ...link.Message) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state = state
	for _, m := range state {
		if err := a.writers[len(a.writers)-1].Write(m); err != nil {
			a.t.Fatalf("the agent cannot say %T: %v", m, err)
		}
	}
}

// sendGarbage writes bytes that are no frame on the latest connection.
func (a *agent) sendGarbage(b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conns[len(a.conns)-1].Write(b)
}

func (a *agent) sessions() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.hellos)
}

// lastHeartbeat is the filter's latest heartbeat.
func (a *agent) lastHeartbeat() link.Heartbeat {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.beats) == 0 {
		return link.Heartbeat{}
	}
	return *a.beats[len(a.beats)-1]
}

// decision returns the reported decision about the request with this ID; nil: none.
func (a *agent) decision(id string) *exchange.Decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.decided {
		if a.decided[i].Request == id {
			return &a.decided[i]
		}
	}
	return nil
}

// reported sums the filter's reports of a tenant.
func (a *agent) reported(tenant string) (sum exchange.FlowReport) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.reports {
		for _, f := range r.Flows {
			if f.Tenant == tenant {
				sum.Demand += f.Demand
				sum.Served += f.Served
				sum.ClientRejected += f.ClientRejected
			}
		}
	}
	return sum
}

func (a *agent) kill() {
	a.listener.Close()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.conns {
		c.Close()
	}
}

// spentKeys returns the reported keys of the filter as the agent keeps them.
func (a *agent) spentKeys() *exchange.Spent {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := &exchange.Spent{}
	for _, k := range a.spent {
		m.Keys = append(m.Keys, k)
	}
	return m
}

// setState sets the messages that are sent on new connections.
func (a *agent) setState(state ...link.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state = state
}

// until polls until done, without an Envoy; it fails after a while.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s for 10 s", what)
		}
	}
}
