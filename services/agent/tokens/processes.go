package tokens

import (
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/services/agent/owners"
)

// client is a process as the owners here know it.
type client struct {
	line                     // of recalls
	keys map[uint64]struct{} // of those owned, that it may have something of
}

// local is a gateway's process at this agent.
type local struct {
	registered uint64 // Owners.View of which all owners know what it holds
	given      int    // the Division that it was sent last
}

// Connected notes that a process of a gateway here has a link.
func (d *Desk) Connected(now time.Duration, process uint64) {
	d.begin(now)
	d.locals[process] = &local{}
	delete(d.lost, process)
	d.sendOwners(process)
	delete(d.parts.leaving, process)
	d.parts.division.Connect(process)
	d.parts.changed = true
	d.stepParts(now)
}

// client returns what owners know a process by.
func (d *Desk) client(p owners.Process) *client {
	c := d.clients[p]
	if c == nil {
		d.latest++
		c = &client{line: line{Process: p, number: d.latest}, keys: map[uint64]struct{}{}}
		d.clients[p], d.numbers[c.number] = c, c
	}
	return c
}

// Lost notes that a gateway here is gone, or has no link for long: what it held is spent.
func (d *Desk) Lost(now time.Duration, process uint64) {
	if d.locals[process] == nil {
		return
	}
	d.parts.leaving[process] = now + lapsed
	delete(d.locals, process)
	d.lost[process] = lostTold
	d.gone(now, owners.Process{Agent: d.o.Agent, Number: process})
	d.begin(now)
}

// gone has the owners here count what a process held as spent. It costs its keys.
func (d *Desk) gone(now time.Duration, p owners.Process) {
	if delete(d.processes[p.Agent], p.Number); len(d.processes[p.Agent]) == 0 {
		delete(d.processes, p.Agent)
	}
	c := d.clients[p]
	if c == nil {
		return
	}
	delete(d.clients, p) // if it lives on, it is another one to the owners
	c.waits = grant.Line[uint64]{}
	for _, key := range slices.Sorted(maps.Keys(c.keys)) { // in the same order in each run
		if k := d.owned[key]; k != nil {
			k.o.Lost(int64(now), c.number, outbox{d, key})
			d.schedule(k)
		}
	}
	delete(d.numbers, c.number) // no owner speaks to it any more
}
