package coordinator

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/services/coordinator/election"
)

const (
	// decideEvery is the interval between decisions on claims, while there are any.
	decideEvery = time.Second
	// claimsSettle is the age that the oldest claim must have: meanwhile the other agents connect.
	claimsSettle = 2 * time.Second
	// claimAge is the time for which a claim counts: agents that were refused claim again sooner.
	claimAge = 30 * time.Second
	// mostClaims bounds the agents whose claims are kept.
	mostClaims = 10_000
	// believeEvery is the least time between two raises, and aloneEvery between two that most agents
	// do not ask for. After each of them all agents take the whole configuration.
	believeEvery, aloneEvery = time.Minute, 10 * time.Minute
	// farAhead bounds how far an epoch or a revision, which are times, may lie beyond the time of day, unless all
	// agents claim it.
	farAhead = time.Minute
)

// claims are epochs and revisions of agents that etcd does not have. They are true after etcd was
// restored from a backup or replaced: then most agents make them. An agent may also lie, so that:
//
//   - What more than half of the agents claim at least is believed once in believeEvery.
//   - What fewer claim is believed once in aloneEvery.
//   - What is further ahead of the clock than farAhead is believed only if all agents claim it.
type claims struct {
	mu       sync.Mutex
	made     map[string]claim
	running  bool
	last     believed
	alone    time.Time // when few agents were believed last
	accepted atomic.Int64
	doubted  atomic.Int64
}

type claim struct {
	epoch, revision int64
	first, at       time.Time
}

// believed is the last epoch and revision that were believed, and the time of that decision.
type believed struct {
	epoch, revision int64
	at              time.Time
}

// add notes what an agent claims, and reports whether nobody decides on the claims yet.
func (c *claims) add(now time.Time, agent string, epoch, revision int64) (start bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil {
		c.made = map[string]claim{}
	}
	old, again := c.made[agent]
	if !again && len(c.made) >= mostClaims {
		return false
	}
	one := claim{epoch: epoch, revision: revision, first: now, at: now}
	if again {
		one.first = old.first
	}
	c.made[agent] = one
	start, c.running = !c.running, true
	return start
}

// decide forgets claims that are met or old, and returns what the others amount to: 0, 0 if they are not believed. left
// is false if there are none: then nobody decides any more. connected are the agents that have streams.
func (c *claims) decide(now time.Time, connected []string, met func(epoch, revision int64) bool) (epoch, revision int64,
	left bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	oldest := now
	for name, one := range c.made {
		if now.Sub(one.at) > claimAge || met(one.epoch, one.revision) {
			delete(c.made, name)
		} else if one.first.Before(oldest) {
			oldest = one.first
		}
	}
	if c.running = len(c.made) > 0; !c.running {
		return 0, 0, false
	}
	if now.Sub(oldest) < claimsSettle {
		return 0, 0, true
	}
	agents := len(c.made)
	for _, name := range connected {
		if _, claims := c.made[name]; !claims {
			agents++
		}
	}
	epoch, revision = c.amount(now, agents)
	return epoch, revision, true
}

// amount returns the epoch and the revision that the claims of this many agents justify.
func (c *claims) amount(now time.Time, agents int) (epoch, revision int64) {
	limit, most := now.Add(farAhead).UnixMilli(), len(c.made) > agents/2
	rank := 0 // the largest
	if most {
		rank = agents / 2 // what more than half claim at least
	}
	epoch = c.ranked(rank, func(one claim) int64 { return one.epoch })
	revision = c.ranked(rank, func(one claim) int64 { return one.revision })
	again := epoch <= c.last.epoch && revision <= c.last.revision // it is not carried out yet
	switch {
	case again:
		return epoch, revision
	case len(c.made) < agents && max(epoch, revision) > limit,
		now.Sub(c.last.at) < believeEvery,
		!most && now.Sub(c.alone) < aloneEvery:
		c.doubted.Add(1)
		return 0, 0
	case !most:
		c.alone = now
	}
	c.accepted.Add(1)
	c.last = believed{epoch, revision, now}
	return epoch, revision
}

// ranked returns the number of a claim, counted from the largest.
func (c *claims) ranked(rank int, of func(claim) int64) int64 {
	numbers := make([]int64, 0, len(c.made))
	for _, one := range c.made {
		numbers = append(numbers, of(one))
	}
	slices.SortFunc(numbers, func(a, b int64) int { return cmp.Compare(b, a) })
	return numbers[rank]
}

// decideClaims raises epoch and revision to what is believed of the claims, until there are none.
func (o *Coordinator) decideClaims(ctx context.Context) {
	tick := time.NewTicker(decideEvery)
	defer tick.Stop()
	met := func(epoch, revision int64) bool {
		return epoch <= o.streams.Epoch() && !o.configuration.Before(revision)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		epoch, revision, left := o.claims.decide(time.Now(), o.streams.Agents(), met)
		if !left {
			return
		}
		if epoch == 0 && revision == 0 {
			continue
		}
		o.log.Warn("agents know more than etcd: etcd was restored from a backup or replaced", "epoch", epoch,
			"revision", revision)
		o.elector.Heard(epoch)
		if o.configuration.Before(revision) && election.Plausible(revision) {
			if err := o.store.Raise(ctx, revision); err != nil { // it is tried again
				o.log.Warn("the revision is not raised", "error", err)
			}
		}
	}
}
