package uplink

import (
	"context"
	"sync"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

// What a replica does when its agent is silent is what an agent does that is cut
// off (exchange.Isolation), with the agent's default times.
const (
	// silence of an agent that had something contended to say: it says so every
	// period.
	silence = 10 * claimsEvery
	// splitAfter is T1: from then on this replica keeps to its part by weight.
	splitAfter = 10 * time.Second
	// aloneAfter is T2: by then the others have left it that part as a whole.
	aloneAfter = 15 * time.Second
)

// adrift stands in for the agent's Sums while it is silent. The others are taken to
// go on as they last claimed: each key's Admitted grows by Claims·dt, so that the
// ledgers keep charging for them and a shared limit stays shared. When the agent
// speaks again its truth replaces the estimate.
type adrift struct {
	mu    sync.Mutex
	last  *exchange.Sums // as heard, then as estimated
	heard int64          // ns
	moved int64          // ns, when last was estimated for
}

// hear notes what the agent said.
func (a *adrift) hear(now int64, s *exchange.Sums) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last, a.heard, a.moved = s, now, now
}

// estimate is what to go by at now, nil if there is nothing to estimate: the agent
// speaks, or there are no others.
func (a *adrift) estimate(now int64, linked bool) *exchange.Sums {
	a.mu.Lock()
	defer a.mu.Unlock()
	away := time.Duration(now - a.heard)
	if a.last == nil || a.last.Replicas <= 1 || linked && (away < silence || len(a.last.Keys)+len(a.last.Flows) == 0) {
		return nil
	}
	next := *a.last
	next.Keys = make([]exchange.KeySum, len(a.last.Keys))
	copy(next.Keys, a.last.Keys)
	for i := range next.Keys {
		next.Keys[i].Admitted += next.Keys[i].Claims * time.Duration(now-a.moved).Seconds()
	}
	next.Isolation = max(next.Isolation, isolation(away))
	a.last, a.moved = &next, now
	return &next
}

func isolation(away time.Duration) exchange.Isolation {
	switch {
	case away >= aloneAfter:
		return exchange.Alone
	case away >= splitAfter:
		return exchange.Split
	default:
		return exchange.Frozen
	}
}

// drift keeps the engine going while the agent is silent, until the context ends.
// The engine's own claims go on being published, or its rate would wait for the
// lag again when the agent is back; what they withdraw is told then.
func (c *Client) drift(ctx context.Context) {
	ticker := time.NewTicker(claimsEvery)
	defer ticker.Stop()
	var own exchange.Claims
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		c.standIn(&own)
	}
}

// standIn does what is due of drift. A panic ends this step, not those to come.
func (c *Client) standIn(own *exchange.Claims) {
	defer c.o.Contain("the link's stand-in")
	now, linked := c.o.Now(), c.Connected.Load()
	if s := c.adrift.estimate(now, linked); s != nil {
		c.o.Engine.SetSums(now, s)
	}
	if !linked {
		own.Reset()
		c.o.Engine.Claims(now, own)
		c.withhold(own.Withdrawn)
	}
}

// maxWithheld bounds the withdrawals that wait for an agent; beyond it the others
// forget the claims by themselves.
const maxWithheld = 1 << 16

func (c *Client) withhold(keys []uint64) {
	c.adrift.mu.Lock()
	defer c.adrift.mu.Unlock()
	c.withheld = append(c.withheld, keys[:min(len(keys), maxWithheld-len(c.withheld))]...)
}

// release takes the withdrawals that the agent has not heard of.
func (c *Client) release() []uint64 {
	c.adrift.mu.Lock()
	defer c.adrift.mu.Unlock()
	keys := c.withheld
	c.withheld = nil
	return keys
}
