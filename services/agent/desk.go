package agent

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
	"github.com/titrate/titrate/services/agent/gateways"
	"github.com/titrate/titrate/services/agent/reports"
	"github.com/titrate/titrate/services/agent/tally"
)

// desk is where gateways come and go: it hears them for the tally and the
// reports, and knows which process is behind a link that broke.
type desk struct {
	a *Agent

	mu      sync.Mutex
	current map[process]*gateways.Gateway
	lost    map[process]orphan
	told    map[*gateways.Gateway]told
	refused map[process]int64 // configuration whose refusal was logged
	twins   map[string]bool   // names that several Envoys have now
	doubled uint64            // names that came into twins
}

// told is what a gateway was sent last.
type told struct {
	head   exchange.Sums // without flows and keys
	config *int64        // revision, nil = none
}

type process struct {
	name       string
	generation uint64
}

// orphan is a process whose link is gone.
type orphan struct {
	pid   int
	since time.Duration
}

func newDesk(a *Agent) *desk {
	return &desk{a: a, current: map[process]*gateways.Gateway{}, lost: map[process]orphan{},
		told: map[*gateways.Gateway]told{}, refused: map[process]int64{}}
}

func processOf(g *gateways.Gateway) process { return process{g.Replica(), g.Generation()} }

// Joined gives a gateway all that is in force. What its clients have spent comes
// first: a filter begins to serve with the configuration, which hand may send as soon
// as the gateway is among the told.
func (d *desk) Joined(g *gateways.Gateway) {
	if s := d.a.spent.Of(d.a.now(), g.Replica()); s != nil && g.Speaks() >= 2 {
		g.Send(s)
	}
	d.mu.Lock()
	d.current[processOf(g)] = g
	d.told[g] = told{}
	delete(d.lost, processOf(g))
	d.mu.Unlock()
	now := d.a.now()
	d.a.tally.Join(now, g.Replica(), g.Generation(), g.Weight())
	d.a.handing.Lock()
	d.a.handTo(g)
	d.a.handing.Unlock()
	g.Send(d.a.tally.Sums(now, g.Replica()))
}

// Heard takes in what a gateway says.
func (d *desk) Heard(g *gateways.Gateway, m link.Message) {
	switch m := m.(type) {
	case *exchange.Claims:
		d.a.tally.Announce(d.a.now(), g.Replica(), g.Generation(), m)
		d.a.mesh.Poke()
	case *exchange.Report:
		d.a.reports.Add(d.a.now(), reports.Process{Gateway: g.Replica(), Generation: g.Generation()}, m)
	case *exchange.Spent:
		d.a.spent.Add(d.a.now(), g.Replica(), g.Generation(), m)
	case *link.Refused:
		d.logLeftOut(g, m)
	case *link.Heartbeat:
		d.complain(g, m)
	}
}

// complain logs, once, a configuration that a filter refused although it
// compiled here.
func (d *desk) complain(g *gateways.Gateway, m *link.Heartbeat) {
	d.mu.Lock()
	again := m.Refused == 0 || d.refused[processOf(g)] == m.Refused
	d.refused[processOf(g)] = m.Refused
	d.mu.Unlock()
	if !again {
		d.a.log.Error("a gateway refused the configuration; its older one stays in force",
			"gateway", g.Replica(), "revision", m.Refused, "in_force", m.Revision, "reason", m.Reason)
	}
}

// logLeftOut logs what a filter does not enforce.
func (d *desk) logLeftOut(g *gateways.Gateway, m *link.Refused) {
	if len(m.Limits) == 0 {
		return
	}
	first := m.Limits[0]
	d.a.log.Error("a gateway does not enforce some limits: it is older than they are, or refuses them; upgrade it",
		"gateway", g.Replica(), "revision", m.Revision, "limits", m.Total, "tenant", first.Tenant, "limit", first.Limit,
		"reason", first.Reason)
}

// Left notes that a link is gone. If a newer link of the same process is there
// already, nothing is lost.
func (d *desk) Left(g *gateways.Gateway) {
	now, p := d.a.now(), processOf(g)
	d.mu.Lock()
	delete(d.told, g)
	superseded := d.current[p] != g
	if !superseded {
		delete(d.current, p)
		delete(d.refused, p)
		d.lost[p] = orphan{g.PID(), now}
	}
	d.mu.Unlock()
	if superseded {
		return
	}
	d.a.tally.Lose(now, p.name, p.generation)
	d.bury(now)
}

// compare looks for Envoys that have one name and are no parent and child of a hot
// restart, and logs each name once.
func (d *desk) compare() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := map[string]bool{}
	for _, a := range d.current {
		for _, b := range d.current {
			if a == b || now[a.Replica()] || !gateways.Twins(a, b) {
				continue
			}
			now[a.Replica()] = true
			if !d.twins[a.Replica()] {
				d.doubled++
				d.a.log.Error("two Envoys have one replica name: each counts as a hot restart of the other, and their limits are not added up; give each Envoy its own replica",
					"gateway", a.Replica(), "pids", []int{a.PID(), b.PID()})
			}
		}
	}
	d.twins = now
}

// doubles are the names that several Envoys have now, and how many there were.
func (d *desk) doubles() (names []string, ever uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.twins)), d.doubled
}

// bury withdraws the claims of processes that are gone for good. Others keep
// theirs until T2: a filter without its agent goes on.
func (d *desk) bury(now time.Duration) {
	var dead []process
	d.mu.Lock()
	for p, o := range d.lost {
		switch {
		case o.pid > 0 && exited(o.pid):
			dead = append(dead, p)
			delete(d.lost, p)
		case now-o.since > d.a.c.T2:
			delete(d.lost, p)
		}
	}
	d.mu.Unlock()
	for _, p := range dead {
		d.a.reports.Drop(reports.Process{Gateway: p.name, Generation: p.generation})
		d.a.tally.Drain(now, p.name, p.generation)
		d.a.mesh.Poke()
	}
}

// empty tells that no gateway is linked, and none lives on without a link.
func (d *desk) empty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.current) == 0 && len(d.lost) == 0
}

// changed tells that the membership or the isolation differs from what a
// gateway was told last.
func (d *desk) changed(g *gateways.Gateway, s *exchange.Sums) bool {
	head := *s
	head.Flows, head.Keys, head.Lag = nil, nil, 0
	d.mu.Lock()
	defer d.mu.Unlock()
	t, here := d.told[g]
	last := t.head
	if t.head = head; here {
		d.told[g] = t
	}
	return here && !tally.SameMembers(&last, &head)
}

// news tells that a gateway was not sent the configuration of that revision.
func (d *desk) news(g *gateways.Gateway, revision int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, here := d.told[g]
	if !here || t.config != nil && *t.config == revision {
		return false
	}
	t.config = &revision
	d.told[g] = t
	return true
}
