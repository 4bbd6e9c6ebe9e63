package limiter

import (
	"cmp"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter/internal/hash"
	"github.com/titrate/titrate/control/slots/keys"
)

// Which slots a request needs, by the configuration.

// slotNumbers are the slots of a limit by client.
type slotNumbers struct {
	most      int64
	overrides map[string]int64
	queue     keys.Queue
}

// slotNumbersOf returns the slots of a limit; nil: it has a rate.
func slotNumbersOf(l *config.Limit) *slotNumbers {
	if l.Concurrency == 0 {
		return nil
	}
	n := &slotNumbers{most: l.Concurrency}
	if l.Queued() {
		q := l.Queue.WithDefaults()
		n.queue = keys.Queue{Wait: int64(q.MaxWait), Requests: int64(q.MaxRequests)}
	}
	for client, o := range l.Overrides {
		if n.overrides == nil {
			n.overrides = make(map[string]int64, len(l.Overrides))
		}
		n.overrides[client] = o.Concurrency
	}
	return n
}

// slotsOf returns the number of slots of a client.
func (l *limit) slotsOf(client string) int64 {
	if o, found := l.ownOf(client); found {
		return int64(o.Number)
	}
	if o, found := l.slots.overrides[client]; found {
		return o
	}
	return l.slots.most
}

// SlotKey returns the hash of a key of a concurrency limit, and its number of slots by a configuration at an
// instant. Not ok: the configuration has no such limit. O(limits of the tenant).
func SlotKey(in *config.Set, at config.Instant, n *exchange.KeyName) (key uint64, most int64, ok bool) {
	l := in.Limit(n.Tenant, n.Limit, at)
	if l == nil || l.Concurrency == 0 || l.PerTenant && n.Client != "" || n.Plan != "" {
		return 0, 0, false
	}
	key = hash.OfLimit(in.Seed(), n.Tenant, n.Limit, "").Key(l.PerTenant, n.Client, 0)
	if o, found := overrideOf(in, at, l, n); found {
		return key, o.Concurrency, true
	}
	return key, l.Concurrency, true
}

// narrowerFirst orders the concurrency limits of a request. While it waits for a slot it keeps its other slots. So it
// waits for a slot of its client before it takes a slot that others could use. Quotas are last: their units are spent
// at once.
func narrowerFirst(a, b *limit) int {
	if a.quota != nil || b.quota != nil {
		return order(a.quota != nil, b.quota != nil)
	}
	return cmp.Or(order(a.perTenant, b.perTenant), cmp.Compare(a.slots.most, b.slots.most))
}

// noSlot is the allowance of a client all of whose slots are in use.
func (l *limit) noSlot(client string) Allowance {
	return Allowance{Limit: l.name, Concurrency: l.slotsOf(client), Cost: 1, Next: time.Duration(slotRetry),
		Wait: time.Duration(slotRetry)}
}
