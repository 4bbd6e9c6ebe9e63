package agent

import (
	"context"
	"sync"
	"time"

	"github.com/titrate/titrate/services/agent/core"
)

// alarm is a timer for what the core has to do next. It may ring too early, never too late.
type alarm struct {
	mu    sync.Mutex
	at    time.Duration // 0: never
	timer *time.Timer
}

// newAlarm returns an alarm that does not ring.
func newAlarm() *alarm {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &alarm{timer: timer}
}

// set has the alarm ring at a time, unless it rings before; 0: never.
func (a *alarm) set(now, at time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at != 0 && (a.at == 0 || at < a.at) {
		a.at = at
		a.timer.Reset(max(0, at-now))
	}
}

// rang notes that the alarm has rung: it does not until it is set again.
func (a *alarm) rang() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = 0
}

// tickTokens has the core do what is due for tokens, when it is due.
func (a *Agent) tickTokens(ctx context.Context) {
	defer a.tokensDue.timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.tokensDue.timer.C:
		}
		a.tokensDue.rang()
		a.event(func(now time.Duration, c *core.Core) core.Effects { return c.TickTokens(now) })
	}
}

// tick gives the core the time when something is due, each half period at most, and looks which
// processes have exited.
func (a *Agent) tick(ctx context.Context) {
	defer a.tickDue.timer.Stop()
	a.tickDue.set(0, 1)
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.tickDue.timer.C:
		}
		a.tickDue.rang()
		a.findExited()
		a.event(func(now time.Duration, c *core.Core) core.Effects { return c.Tick(now) })
		a.gossip.Round()
	}
}
