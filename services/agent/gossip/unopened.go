package gossip

import (
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/titrate/titrate/services/agent/gossip/schedule"
)

// unopenedFor is the time for which a packet that did not open is an alarm, and between two lines about such packets.
const unopenedFor = time.Minute

// unopened is about packets and connections of agents that have other gossip keys.
type unopened struct {
	last  atomic.Pointer[unopenedOne] // nil: there was none
	lines rate.Sometimes
}

type unopenedOne struct {
	from string // address
	at   time.Time
}

func (o *unopenedOne) text() string {
	return fmt.Sprintf("packets or connections of %s do not open: --gossip-key-file there and here have no key in "+
		"common, or one agent has none", o.from)
}

// noteUnopened counts a packet or a connection of an address that did not open, and logs one a minute.
func (m *Node) noteUnopened(from string) {
	m.dropped[schedule.Unopened].Add(1)
	one := &unopenedOne{from, time.Now()}
	m.unopened.last.Store(one)
	m.unopened.lines.Do(func() { m.o.Log.Warn("gossip: "+one.text(), "address", from) })
}

// Unopened returns an error that names the address of the last packet or connection that did not open, if it came less
// than a minute ago.
func (m *Node) Unopened() error {
	one := m.unopened.last.Load()
	if one == nil || time.Since(one.at) > unopenedFor {
		return nil
	}
	return fmt.Errorf("%s; titrate_agent_gossip_dropped_total{reason=%q} counts them", one.text(), schedule.Unopened)
}
