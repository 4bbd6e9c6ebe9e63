package gateways

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
)

// permit refuses users other than root and the agent's own.
func permit(uid, own uint32) error {
	if uid != 0 && uid != own {
		return fmt.Errorf("gateways: the peer runs as user %d: only user %d and root may connect", uid, own)
	}
	return nil
}

// Gateway is one filter process that is connected.
type Gateway struct {
	hello link.Hello
	pid   int
	since time.Time
	conn  *net.UnixConn
	box   mailbox
	beat  atomic.Pointer[link.Heartbeat]
	// crowding is the last heartbeat that told of more keys beyond the filter's budget.
	crowding atomic.Pointer[crowding]
	names    atomic.Pointer[exchange.Names]
	// unsent is a configuration that could not be sent, nil if the last one could.
	unsent  atomic.Pointer[link.Heartbeat]
	version uint8 // of the link
	out     atomic.Pointer[link.Refused]
}

// Replica names the gateway; a parent and a child of a hot restart share it.
func (g *Gateway) Replica() string { return g.hello.Replica }

// Generation of the filter process; higher is newer.
func (g *Gateway) Generation() uint64 { return g.hello.Generation }

// Twins tells that two processes of one name are no parent and child of a hot
// restart: both are connected, and neither follows the other.
func Twins(a, b *Gateway) bool {
	if a.Replica() != b.Replica() || a.Generation() == b.Generation() || a.hello.Restart == 0 || b.hello.Restart == 0 {
		return false
	}
	step := a.hello.Restart - b.hello.Restart
	return step != 1 && step != -1
}

// Weight of the gateway in the split of a share, > 0.
func (g *Gateway) Weight() float64 { return g.hello.Weight }

// Envoy is the version that the filter told, may be "".
func (g *Gateway) Envoy() string { return g.hello.Envoy }

// PID of the process as the kernel knows it; 0 if it is in another PID
// namespace or the system cannot tell.
func (g *Gateway) PID() int { return g.pid }

// Since is when it connected.
func (g *Gateway) Since() time.Time { return g.since }

// InForce returns the filter's latest heartbeat: what configuration it has in
// force and which one it refused. A configuration that could not be sent to it
// counts as refused. Zero before the first.
func (g *Gateway) InForce() (in link.Heartbeat) {
	if b := g.beat.Load(); b != nil {
		in = *b
	}
	if u := g.unsent.Load(); u != nil {
		in.Refused, in.Reason = u.Refused, u.Reason
	}
	return in
}

// crowding is how much had come for keys beyond a filter's budget when more of it was
// told last.
type crowding struct {
	at    time.Time
	count uint64
}

// heard takes a heartbeat.
func (g *Gateway) heard(b *link.Heartbeat) {
	g.beat.Store(b)
	if last := g.crowding.Load(); b.Parted > 0 && (last == nil || b.Parted > last.count) {
		g.crowding.Store(&crowding{time.Now(), b.Parted})
	}
}

// Crowded returns when the filter last told that more had come for keys beyond its
// budget of full state, and how much has in all; zero if never.
func (g *Gateway) Crowded() (last time.Time, count uint64) {
	if c := g.crowding.Load(); c != nil {
		return c.at, c.count
	}
	return time.Time{}, 0
}

// Names returns the identities and classes that the filter's settings name, nil
// before it has told them, or if it does not tell (link version 1).
func (g *Gateway) Names() *exchange.Names { return g.names.Load() }

// LeftOut returns what the filter does not enforce of the configuration that it
// has in force. Zero before the first report, or of a filter that does not report
// it (link version 1).
func (g *Gateway) LeftOut() link.Refused {
	if r := g.out.Load(); r != nil {
		return *r
	}
	return link.Refused{}
}

// Speaks is the version of the link that both sides understand.
func (g *Gateway) Speaks() uint8 { return g.version }

// Send leaves a *Spent, *Config, *Shares, *Sums or *Heartbeat in the mailbox, in the
// place of an older one of its kind. It never blocks. The message is the
// gateway's from then on: it must not be changed, nor be sent to another one
// (but for a *Config, which is only read).
func (g *Gateway) Send(m link.Message) { g.box.put(m) }

// Close ends the connection; the handler's Left follows.
func (g *Gateway) Close() { g.conn.Close() }

// mailbox keeps the latest message of each kind until it is written.
type mailbox struct {
	mu    sync.Mutex
	slots [slots]link.Message
	wake  chan struct{}
}

// slots are written in this order: what was spent before the configuration, with
// which a filter begins to serve; shares mean nothing without the configuration
// that names their flows.
const (
	slotSpent = iota
	slotConfig
	slotShares
	slotSums
	slotHeartbeat
	slots
)

func (b *mailbox) put(m link.Message) {
	slot := slotHeartbeat
	switch m.(type) {
	case *exchange.Spent:
		slot = slotSpent
	case *config.Config:
		slot = slotConfig
	case *exchange.Shares:
		slot = slotShares
	case *exchange.Sums:
		slot = slotSums
	}
	b.mu.Lock()
	b.slots[slot] = m
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default: // the writer is already told
	}
}

// take returns what waits, first come first by slot, nil if nothing does.
func (b *mailbox) take() link.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, m := range b.slots {
		if m != nil {
			b.slots[i] = nil
			return m
		}
	}
	return nil
}

// patient writes with a deadline: a filter that does not read for DeadAfter is
// stuck.
type patient struct{ conn *net.UnixConn }

func (p patient) Write(b []byte) (int, error) {
	if err := p.conn.SetWriteDeadline(time.Now().Add(link.DeadAfter)); err != nil {
		return 0, err
	}
	return p.conn.Write(b)
}
