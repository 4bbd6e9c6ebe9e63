package agent

import (
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/services/agent/core"
)

// wall is this host's time of day. It counts until a coordinator says the time, corrected by what the snapshot says.
func wall() config.Instant { return config.InstantOf(time.Now()) }

// clock returns the coordinators' time of day.
func (a *Agent) clock() config.Instant {
	return ask(a, func(now time.Duration, c *core.Core) config.Instant { return c.Clock(now) })
}

// ahead is the coordinators' time of day minus this host's, in milliseconds.
func (a *Agent) ahead() int64 { return int64(a.clock() - wall()) }

// noteAhead has the snapshot written again if the host's clock was set since.
func (a *Agent) noteAhead() {
	ahead := a.ahead()
	a.offering.Lock()
	defer a.offering.Unlock()
	if a.offer.SetAhead(ahead) {
		a.unsaved.whole = true
		a.unsaved.any.Store(true)
	}
}
