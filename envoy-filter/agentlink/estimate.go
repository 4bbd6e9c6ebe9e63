package agentlink

import (
	"context"
	"sync"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
)

// estimator is an exchange.Estimator behind a lock.
type estimator struct {
	mu   sync.Mutex
	sums exchange.Estimator
}

// set records Sums of the agent.
func (e *estimator) set(now int64, s *exchange.Sums) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sums.Set(now, s)
}

// silent reports whether the agent is silent, see [exchange.Estimator.Silent].
func (e *estimator) silent(now int64, linked, claimed bool) (since int64, isolation exchange.Isolation, silent bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sums.Silent(now, linked, claimed)
}

// estimateWhileSilent has the engine go on without the agent while it is silent, until the
// context ends. It also keeps taking the engine's claims: otherwise the engine would
// have to announce its rate again, and wait for the lag, when the agent is back. What
// those claims withdraw is sent then.
func (c *Client) estimateWhileSilent(ctx context.Context) {
	ticker := time.NewTicker(claimsEvery)
	defer ticker.Stop()
	var unsent exchange.Claims
	silent := time.Duration(0) // since how long there is no link
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		c.estimateOnce(&unsent)
		if silent += claimsEvery; c.Connected.Load() {
			silent = 0
		} else if silent == link.DeadAfter {
			c.o.Engine.ForgetTokens()
		}
	}
}

// estimateOnce is one step of estimateWhileSilent. A panic ends the step only.
func (c *Client) estimateOnce(unsent *exchange.Claims) {
	defer c.o.RecoverPanic("the estimate of other replicas")
	now, linked := c.o.Now(), c.Connected.Load()
	claimed := c.o.Engine.ClaimedByOthers()
	if since, isolation, silent := c.others.silent(now, linked, claimed); silent {
		c.o.Engine.GoOn(since, isolation)
	}
	if !linked {
		c.takeClaims(now, unsent)
		c.withhold(unsent)
	}
}

// withhold keeps what an agent must know of claims that none has seen.
func (c *Client) withhold(unseen *exchange.Claims) {
	c.others.mu.Lock()
	defer c.others.mu.Unlock()
	c.withheld.Add(unseen)
}

// addWithheld adds to the first claims on a new link what was withheld.
func (c *Client) addWithheld(claims *exchange.Claims) {
	c.others.mu.Lock()
	defer c.others.mu.Unlock()
	c.withheld.AddTo(claims)
}
