package agentlink

import (
	"context"
	"sync"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

// A replica whose agent is silent does what an agent does that has lost the others
// (exchange.Isolation), after the agent's default times.
const (
	// silentAfter: an agent that sends nothing for this long is silent, if its last sums
	// were not empty; otherwise it sends sums every period.
	silentAfter = 10 * claimsEvery
	// splitAfter: from then on this replica keeps to its part by weight.
	splitAfter = exchange.DefaultSplitAfter
	// aloneAfter: by then the other replicas have left it that part as a whole.
	aloneAfter = exchange.DefaultForgetAfter
)

// estimator replaces the agent's Sums while the agent is silent. It assumes that the
// other replicas go on as they last claimed: each key's Admitted grows by Claims·dt. So
// the engine keeps charging shared limits for the others. The agent's next Sums replace
// the estimate.
type estimator struct {
	mu        sync.Mutex
	last      *exchange.Sums // received, or estimated since
	received  int64          // ns
	estimated int64          // ns, the time for which last is right
}

// set records Sums of the agent.
func (e *estimator) set(now int64, s *exchange.Sums) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last, e.received, e.estimated = s, now, now
}

// estimate returns an estimate for now; nil if the agent is not silent, or there are no
// other replicas.
func (e *estimator) estimate(now int64, linked bool) *exchange.Sums {
	e.mu.Lock()
	defer e.mu.Unlock()
	silent := time.Duration(now - e.received)
	if e.last == nil || e.last.Replicas <= 1 {
		return nil
	}
	if linked && (silent < silentAfter || len(e.last.Keys)+len(e.last.Flows) == 0) {
		return nil
	}
	next := *e.last
	next.Keys = make([]exchange.KeySum, len(e.last.Keys))
	copy(next.Keys, e.last.Keys)
	for i := range next.Keys {
		next.Keys[i].Admitted += next.Keys[i].Claims * time.Duration(now-e.estimated).Seconds()
	}
	next.Isolation = max(next.Isolation, isolation(silent))
	e.last, e.estimated = &next, now
	return &next
}

func isolation(silent time.Duration) exchange.Isolation {
	switch {
	case silent >= aloneAfter:
		return exchange.Alone
	case silent >= splitAfter:
		return exchange.Split
	default:
		return exchange.Frozen
	}
}

// estimateWhileSilent gives the engine estimates while the agent is silent, until the
// context ends. It also keeps taking the engine's claims: otherwise the engine would
// have to announce its rate again, and wait for the lag, when the agent is back. The
// keys that those claims withdraw are sent then.
func (c *Client) estimateWhileSilent(ctx context.Context) {
	ticker := time.NewTicker(claimsEvery)
	defer ticker.Stop()
	var unsent exchange.Claims
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		c.estimateOnce(&unsent)
	}
}

// estimateOnce is one step of estimateWhileSilent. A panic ends the step only.
func (c *Client) estimateOnce(unsent *exchange.Claims) {
	defer c.o.RecoverPanic("the estimate of other replicas")
	now, linked := c.o.Now(), c.Connected.Load()
	if s := c.others.estimate(now, linked); s != nil {
		c.o.Engine.SetSums(now, s)
	}
	if !linked {
		unsent.Reset()
		c.o.Engine.Claims(now, unsent)
		c.keepWithdrawn(unsent.Withdrawn)
	}
}

// maxWithdrawn bounds the withdrawals that wait for an agent. The other replicas forget
// the claims of the rest after a while.
const maxWithdrawn = 1 << 16

func (c *Client) keepWithdrawn(keys []uint64) {
	c.others.mu.Lock()
	defer c.others.mu.Unlock()
	c.withdrawn = append(c.withdrawn, keys[:min(len(keys), maxWithdrawn-len(c.withdrawn))]...)
}

// takeWithdrawn returns the withdrawals that no agent has seen, and forgets them.
func (c *Client) takeWithdrawn() []uint64 {
	c.others.mu.Lock()
	defer c.others.mu.Unlock()
	keys := c.withdrawn
	c.withdrawn = nil
	return keys
}
