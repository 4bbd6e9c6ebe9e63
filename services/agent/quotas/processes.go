package quotas

import (
	"time"

	"github.com/titrate/titrate/control/calendar"
)

const (
	// MaxProcesses is the most processes of gateways of one agent that an owner knows.
	MaxProcesses = 512
	// restsAfter is the time without a message after which another process may take the place of one.
	restsAfter = time.Minute
)

// Process is a gateway's process, at an agent.
type Process struct {
	Agent  string
	Number uint64
}

// client is a process that has sent messages to owners here.
type client struct {
	Process
	peer calendar.Peer
	at   time.Duration // of the latest message
}

// client returns the number of a process; not ok: its agent has MaxProcesses others, and all of them send messages.
func (d *Desk) client(p Process) (calendar.Peer, bool) {
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
	if n >= MaxProcesses {
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
	if c := d.clients[Process{d.o.Agent, process}]; c != nil {
		d.forgetClient(c)
	}
	delete(d.answers, process)
}
