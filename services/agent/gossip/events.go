package gossip

import (
	"context"
	"sync"

	"github.com/hashicorp/memberlist"
)

// events are what memberlist says of peers, the latest of each. It answers no ping while it is in one of these methods,
// and State may have much to do: they only note. A peer that was gone for a moment meanwhile was never gone.
type events struct {
	wake chan struct{}

	mu     sync.Mutex
	names  []string // in the order of their events
	latest map[string]event
}

type event struct {
	node  memberlist.Node
	alive bool
}

func newEvents() events { return events{wake: make(chan struct{}, 1), latest: map[string]event{}} }

// NotifyJoin notes a peer that is alive.
func (e *events) NotifyJoin(n *memberlist.Node) { e.note(n, true) }

// NotifyUpdate notes a peer's new address.
func (e *events) NotifyUpdate(n *memberlist.Node) { e.note(n, true) }

// NotifyLeave notes a peer that left or failed; its own packets say which.
func (e *events) NotifyLeave(n *memberlist.Node) { e.note(n, false) }

func (e *events) note(n *memberlist.Node, alive bool) {
	e.mu.Lock()
	if _, waits := e.latest[n.Name]; !waits {
		e.names = append(e.names, n.Name)
	}
	e.latest[n.Name] = event{*n, alive}
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default: // the reader is awake already
	}
}

// take returns the next event.
func (e *events) take() (next event, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.names) == 0 {
		return next, false
	}
	name := e.names[0]
	next, e.names = e.latest[name], e.names[1:]
	delete(e.latest, name)
	return next, true
}

// readEvents has State know of the events until ctx ends.
func (m *Node) readEvents(ctx context.Context) {
	for {
		select {
		case <-m.events.wake:
		case <-ctx.Done():
			return
		}
		for e, ok := m.events.take(); ok; e, ok = m.events.take() {
			m.updatePeer(&e.node, e.alive)
		}
	}
}

// updatePeer notes what memberlist says of a peer.
func (m *Node) updatePeer(n *memberlist.Node, alive bool) {
	if n.Name == m.o.Name || len(n.Name) > maxName {
		return
	}
	changed, newLife, version := m.updateContact(n, alive)
	inOrder := false
	if alive {
		m.state.PeerSite(n.Name, siteOf(n.Meta))
		m.state.PeerAlive(n.Name, n.Address(), newLife, version)
	} else {
		inOrder = m.state.PeerFailed(n.Name)
	}
	if changed {
		word := map[bool]string{true: "alive", false: "gone"}[alive]
		m.o.Log.Info("agent is "+word, "agent", n.Name, "address", n.Address(), "in_order", inOrder)
	}
}

// updateContact keeps a peer's address, session and whether it is alive.
func (m *Node) updateContact(n *memberlist.Node, alive bool) (changed, newLife bool, version uint8) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.contacts[n.Name]
	if c == nil {
		c = &contact{}
		m.contacts[n.Name] = c
	}
	changed = c.alive != alive
	if c.node, c.alive = *n, alive; alive {
		newLife = m.updateSession(c)
	}
	return changed, newLife, c.version
}
