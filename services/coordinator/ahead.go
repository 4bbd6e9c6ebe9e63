package coordinator

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// claimAge is the time for which a claim counts: agents that were refused come again sooner.
	claimAge = 30 * time.Second
	// mostClaims bounds the agents whose claims are kept.
	mostClaims = 10_000
	// aloneEvery is the least time between two claims that are believed though most agents do not
	// make them. Each makes all agents take the whole configuration.
	aloneEvery = 10 * time.Minute
	// aloneAhead bounds how far such a claim may be ahead of the clock: epochs and revisions are times.
	aloneAhead = time.Minute
)

// claims are epochs and revisions of agents that etcd does not have. They are true after etcd was
// restored from a backup or replaced, and then most agents make them. An agent may also lie, so that:
//
//   - What more than half of the agents claim at least is believed, of two agents or more.
//   - What one agent claims is believed once in aloneEvery, and no further ahead than aloneAhead,
//     unless it is the only agent.
type claims struct {
	mu    sync.Mutex
	made  map[string]claim
	alone time.Time // when one agent was believed last

	believed, doubted atomic.Int64
}

type claim struct {
	epoch, revision int64
	at              time.Time
}

// add takes the claim of an agent, and returns the epoch and the revision that are believed now, 0
// if none is. connected are the agents that have streams.
func (c *claims) add(now time.Time, agent string, epoch, revision int64, connected []string) (int64, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil {
		c.made = map[string]claim{}
	}
	for name, old := range c.made {
		if now.Sub(old.at) > claimAge {
			delete(c.made, name)
		}
	}
	if len(c.made) < mostClaims {
		c.made[agent] = claim{epoch, revision, now}
	}
	agents := len(c.made)
	for _, name := range connected {
		if _, claims := c.made[name]; !claims {
			agents++
		}
	}
	limit := now.Add(aloneAhead).UnixMilli()
	switch {
	case agents > 1 && len(c.made) > agents/2:
		epoch = c.ofMost(agents, func(one claim) int64 { return one.epoch })
		revision = c.ofMost(agents, func(one claim) int64 { return one.revision })
	case now.Sub(c.alone) < aloneEvery, agents > 1 && max(epoch, revision) > limit:
		c.doubted.Add(1)
		return 0, 0
	default:
		c.alone = now
	}
	c.believed.Add(1)
	return epoch, revision
}

// ofMost returns the largest number that more than half of the agents claim at least.
func (c *claims) ofMost(agents int, of func(claim) int64) int64 {
	numbers := make([]int64, 0, len(c.made))
	for _, one := range c.made {
		numbers = append(numbers, of(one))
	}
	slices.SortFunc(numbers, func(a, b int64) int { return cmp.Compare(b, a) })
	return numbers[agents/2]
}
