package agentlink

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/titrate/titrate/control/config"
)

// Parts of a configuration that have an Until lapse here, whether or not the agent is linked. The time of day is the
// agent's, by its Hello and its heartbeats; this process counts on from them. A lapse is a change of the configuration
// of the same revision: the engine gets it as it gets an agent's change, beside the path of requests.

// lapseEvery is the least time between two lapses: many that come one after the other cost an engine one change a
// second.
const lapseEvery = time.Second

// lapseWhenDue puts lapses in force until the context ends.
func (c *Client) lapseWhenDue(ctx context.Context) {
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	var last time.Duration
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.lapses:
		case <-timer.C:
			c.lapse()
			last = time.Duration(c.o.Now())
		}
		timer.Reset(max(c.untilLapse(), last+lapseEvery-time.Duration(c.o.Now())))
	}
}

// untilLapse returns the time to the next lapse. Without one, or a time of day, it is without end.
func (c *Client) untilLapse() time.Duration {
	now := &c.inForce
	now.Lock()
	defer now.Unlock()
	next, at := now.lapses.Next(), now.at(c.o.Now())
	if next == 0 || at == 0 {
		return math.MaxInt64
	}
	return time.Duration(max(0, next-at)) * time.Millisecond
}

// at returns the time of day; 0: it is not known.
func (now *inForce) at(engine int64) config.Instant { return now.clock.At(time.Duration(engine)) }

// setClock takes in the agent's time of day.
func (c *Client) setClock(at config.Instant) {
	now := &c.inForce
	now.Lock()
	now.clock.Receive(time.Duration(c.o.Now()), at)
	waits := now.lapses.Next() != 0
	now.Unlock()
	if waits {
		c.lapses.Ring()
	}
}

// lapse puts in force what of the configuration holds now. A panic ends that only.
func (c *Client) lapse() {
	defer c.o.RecoverPanic("a lapse")
	now := &c.inForce
	now.Lock()
	defer now.Unlock()
	at := now.at(c.o.Now())
	lapsed := now.lapses.Take(&now.given, at)
	if !lapsed.Any() {
		return
	}
	revision, d, shared := now.given.Revision(), now.given.LapsedDelta(&lapsed), lapsed.Shared
	left, err := []config.LeftOut(nil), error(nil)
	if shared {
		left, err = c.install(now.given.Config(), at)
	} else {
		left, err = c.installChange(d, at)
	}
	if err != nil { // unlike: it was valid with what has lapsed, too
		c.o.Log(fmt.Sprintf("titrate: what has lapsed of revision %d stays in force: %v", revision, err))
		return
	}
	if now.forget(d); shared {
		now.left = nil
	}
	now.left = append(now.left, left...)
	c.setLeftOut(revision, now.left)
	c.o.Log(fmt.Sprintf("titrate: what has lapsed of revision %d is not in force any more: in tenants/- or plans: %t; "+
		"in %d tenants; overrides of %d limits", revision, shared, len(lapsed.Tenants), len(lapsed.Overrides)))
}
