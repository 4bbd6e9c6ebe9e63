package limiter

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter/internal/fixed"
)

// unit is one cost unit in the fixed point of the atomic counters.
const unit = fixed.Unit

// units converts fixed point to cost units.
func units(micros int64) float64 { return fixed.Units(micros) }

// credit is the part of a flow that requests use without a lock: the cost that may pass
// at once. The flow publishes it under its lock, see flow.publish. Costs in fixed point.
type credit struct {
	amount  atomic.Int64  // may be overdrawn by one large request; void: the flow is freed
	whole   atomic.Int64  // a full bucket: a larger request needs no more than this
	waiting atomic.Int32  // requests that wait for the share: no other passes them
	open    atomic.Bool   // shares lost, OnLoss Open: everything passes
	rate    atomic.Uint64 // in force, cost units/s, as the bits of a float64
}

// void is the credit of a flow that is freed.
const void = int64(math.MinInt64 / 2)

// covers reports whether take would succeed now for a request that waits for no other.
func (c *credit) covers(cost int64) bool {
	have := c.amount.Load()
	return c.waiting.Load() == 0 && (have >= cost || have > 0 && have >= c.whole.Load())
}

// take takes cost from the credit if that covers it, or is as full as it gets.
func (c *credit) take(cost int64) bool {
	for {
		have := c.amount.Load()
		if have < cost && (have <= 0 || have < c.whole.Load()) {
			return false
		}
		if c.amount.CompareAndSwap(have, have-cost) {
			return true
		}
	}
}

// overdraw is take from a credit that may fall below 0 by so much.
func (c *credit) overdraw(cost, by int64) bool {
	for {
		have := c.amount.Load()
		if have-cost < -by && (have <= 0 || have < c.whole.Load()) {
			return false
		}
		if c.amount.CompareAndSwap(have, have-cost) {
			return true
		}
	}
}

// wait estimates when the share lets cost pass behind what is queued, in nanoseconds.
func (c *credit) wait(cost, queued int64) int64 {
	rate := math.Float64frombits(c.rate.Load())
	missing := units(queued + cost - min(c.amount.Load(), cost))
	if !(rate > 0) {
		return int64(config.DefaultMaxWait)
	}
	return int64(min(max(0, missing/rate), 60) * float64(time.Second))
}

const heldBits = 64

// heldCounts counts the held requests of a flow. By it a later request of a client finds
// without a lock that an earlier one of the same line may be held. Nil counts none.
type heldCounts struct {
	requests atomic.Int32           // as published
	byLine   [heldBits]atomic.Int32 // by hash of the line
}

// count is the number of held requests, as published.
func (h *heldCounts) count() int {
	if h == nil {
		return 0
	}
	return int(h.requests.Load())
}

// any reports whether an earlier request of the same line may be held: later ones must
// queue behind it. It may be wrong in saying so.
func (h *heldCounts) any(f *flow, c *call) bool {
	return h.count() > 0 && h.byLine[f.lineKey(c)%heldBits].Load() > 0
}

func (h *heldCounts) add(line uint64, n int32) { h.byLine[line%heldBits].Add(n) }
