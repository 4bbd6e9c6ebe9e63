package slots

import (
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/slots"
	"github.com/titrate/titrate/services/agent/owners"
)

// client is a process as the owners here know it.
type client struct {
	owners.Process
	number  slots.Peer
	echo    int64 // latest Sent with a list of agents as here
	owed    bool  // an answer is to be sent, also without a message of an owner
	replies []exchange.SlotReply
}

func (d *Desk) client(p owners.Process) *client {
	c := d.clients[p]
	if c != nil {
		return c
	}
	n := 0
	for other := range d.clients {
		if other.Agent == p.Agent {
			n++
		}
	}
	if n >= owners.MaxProcesses {
		return nil
	}
	d.latest++
	c = &client{Process: p, number: d.latest}
	d.clients[p], d.numbers[c.number] = c, c
	return c
}

// expire ends the sessions of gateways whose leases have run out.
func (d *Desk) expire() {
	if gone := d.peers.Expired(int64(d.now)); len(gone) > 0 {
		slices.Sort(gone)
		d.stats.Expired += uint64(len(gone))
		d.end(gone...)
	}
}

// end ends the sessions of processes.
func (d *Desk) end(gone ...slots.Peer) {
	for _, p := range gone {
		delete(d.clients, d.numbers[p].Process)
		delete(d.numbers, p)
	}
	for _, hash := range slices.Sorted(maps.Keys(d.keys)) {
		k := d.keys[hash]
		for _, p := range gone {
			k.o.End(int64(d.now), p, outbox{d, k})
		}
		d.schedule(k)
	}
}

// Exited notes that the process of a gateway here has ended, as the kernel says, and with it its requests. Other agents
// are informed once: where that is lost, the lease runs out.
func (d *Desk) Exited(now time.Duration, process uint64) {
	d.now = now
	d.ended(owners.Process{Agent: d.o.Agent, Number: process})
	for _, agent := range d.lives {
		if agent != d.o.Agent {
			p := d.packet(agent)
			p.Ended = append(p.Ended, process)
		}
	}
}

func (d *Desk) ended(p owners.Process) {
	if c := d.clients[p]; c != nil {
		d.peers.Forget(c.number)
		d.end(c.number)
	}
}
