package quotas

import (
	"time"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/services/agent/owners"
)

// restsAfter is the time without a message after which another process may take the place of one.
const restsAfter = time.Minute

// client is a process that has sent messages to owners here.
type client struct {
	owners.Process
	peer calendar.Peer
	at   time.Duration // of the latest message
}

// client returns the number of a process; not ok: its agent has MaxProcesses others, and all of them send messages.
func (d *Desk) client(p owners.Process) (calendar.Peer, bool) {
	if c := d.clients[p]; c != nil {
		c.at = d.now
		return c.peer, true
	}
	var oldest *client
	n := 0
	for _, c := range d.clients {
		if c.Agent != p.Agent {
			continue
		}
		if n++; oldest == nil || c.at < oldest.at || c.at == oldest.at && c.peer < oldest.peer {
			oldest = c
		}
	}
	if n >= owners.MaxProcesses {
		if d.now-oldest.at < restsAfter {
			return 0, false
		}
		d.forgetClient(oldest)
	}
	d.latest++
	c := &client{p, d.latest, d.now}
	d.clients[p], d.numbers[c.peer] = c, c
	return c.peer, true
}

func (d *Desk) forgetClient(c *client) {
	delete(d.clients, c.Process)
	delete(d.numbers, c.peer)
}

// Exited notes that a gateway's process here is gone. Owners forget what it had after a while.
func (d *Desk) Exited(process uint64) {
	if c := d.clients[owners.Process{Agent: d.o.Agent, Number: process}]; c != nil {
		d.forgetClient(c)
	}
	delete(d.answers, process)
}
