package agent

import (
	"context"
	"sync"
	"time"

	"github.com/titrate/titrate/services/agent/core"
)

// alarm is when the owners of keys here have something to do.
type alarm struct {
	mu   sync.Mutex
	at   time.Duration // 0: never
	wake chan struct{} // at is earlier than before
}

// set says when; 0: never.
func (a *alarm) set(at time.Duration) {
	a.mu.Lock()
	sooner := at != 0 && (a.at == 0 || at < a.at)
	a.at = at
	a.mu.Unlock()
	if sooner {
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
}

func (a *alarm) next() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at
}

// tickTokens has the core do what is due for tokens, when it is due.
func (a *Agent) tickTokens(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.alarm.wake:
		case <-timer.C:
			a.event(func(now time.Duration, c *core.Core) core.Effects { return c.TickTokens(now) })
		}
		wait := time.Hour
		if at := a.alarm.next(); at != 0 {
			wait = max(0, at-a.now())
		}
		timer.Reset(wait)
	}
}
