package core

import (
	"log/slog"
	"time"

	"github.com/titrate/titrate/proto/link"
)

// A process that stood still (SIGSTOP, a machine that was suspended) finds what came meanwhile
// in its sockets, the oldest first. A record in it says how things were up to the length of the
// pause ago. It must not count as news. The other agents have assumed that this agent's gateways
// went on, and would take that back for an old count, and charge the difference once more with
// the next one.
//
//   - Claims and sums in packets that have waited are dropped. The other agents send them again,
//     because they are not acknowledged.
//   - Owners of keys of EXACT limits do not give up on what a gateway may have said during the pause.
//   - After DeadAfter the gateways have given up their links, so what is read from such a link
//     is old, too. The gateways count as disconnected until they have a new link.

// longPause is a pause after which packets that have waited are too old, and readSockets how
// many periods it takes to read them.
const (
	longPause   = time.Second
	readSockets = 2
)

// run notes that the process runs, before an event at now.
func (c *Core) run(now time.Duration) {
	pause, began := now-c.ran, c.ran == 0
	c.ran = max(now, 1)
	if began || pause < longPause {
		return
	}
	c.stale = now + readSockets*c.o.Period
	for _, d := range c.tokens {
		d.Stood(now, pause+readSockets*c.o.Period)
	}
	if pause < link.DeadAfter || len(c.links) == 0 {
		return
	}
	c.log(slog.LevelWarn, "this agent stood still: its gateways have given up their links", "for", pause)
	for _, g := range c.connected() {
		c.out.Close = append(c.out.Close, g.link)
		c.Disconnected(now, g.link)
	}
}
