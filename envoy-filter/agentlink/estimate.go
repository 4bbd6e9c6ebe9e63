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

// unreachable reports whether the agent is unreachable, see [exchange.Estimator.Silent].
func (e *estimator) unreachable(now int64, linked, claimed bool) (since int64, is exchange.Isolation, down bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sums.Silent(now, linked, claimed)
}

// estimateWithoutAgent lets the engine run on estimates while the agent is unreachable, until the context ends.
// It also keeps taking the engine's claims: otherwise the engine would have to announce its rate again, and
// wait for the lag, when the agent is back. Claims that were withdrawn meanwhile are sent then.
func (c *Client) estimateWithoutAgent(ctx context.Context) {
	timer := time.NewTimer(c.untilNext(claimsEvery))
	defer timer.Stop()
	var unsent exchange.Claims
	down := time.Duration(0) // since how long there is no link
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(c.untilNext(claimsEvery))
		c.estimateOnce(&unsent)
		if down += claimsEvery; c.Connected.Load() {
			down = 0
		} else if down == link.DeadAfter {
			c.o.Engine.ForgetTokens()
		}
	}
}

// estimateOnce is one step of estimateWithoutAgent. A panic ends the step only.
func (c *Client) estimateOnce(unsent *exchange.Claims) {
	defer c.o.RecoverPanic("the estimate of other replicas")
	now, linked := c.o.Now(), c.Connected.Load()
	claimed := c.o.Engine.ClaimedByOthers()
	if since, isolation, unreachable := c.others.unreachable(now, linked, claimed); unreachable {
		c.o.Engine.GoOn(since, isolation)
	}
	if !linked {
		c.takeClaims(now, unsent)
		c.withhold(unsent)
	}
}

// withhold keeps withdrawals and changes of claims that no agent has received.
func (c *Client) withhold(unseen *exchange.Claims) {
	c.others.mu.Lock()
	defer c.others.mu.Unlock()
	c.withheld.Add(unseen)
}

// addWithheld adds the withheld claims to the first claims on a new link.
func (c *Client) addWithheld(claims *exchange.Claims) {
	c.others.mu.Lock()
	defer c.others.mu.Unlock()
	c.withheld.AddTo(claims)
}
