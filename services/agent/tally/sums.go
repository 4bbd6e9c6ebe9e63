package tally

import (
	"time"

	"github.com/titrate/titrate/control/exchange"
)

// Sums returns what all other replicas do, for a replica of this agent: the keys that
// are claimed or have changed lately, and of the others a part, so that a filter is
// reminded of all within 64 calls. It is made anew each time: the caller may keep it.
func (t *Tally) Sums(now time.Duration, name string) *exchange.Sums {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reach(now)
	s := t.header(now, name)
	except, turn := t.id(name), t.turn(name)
	s.Absent = t.table.Absent(except, now.Seconds())
	for i, k := range t.keys.keys {
		info := t.keys.values[i]
		if now >= info.until && (i+turn)%refresh != 0 {
			continue
		}
		sum := t.table.Sums(k, except, now.Seconds())
		if sum.Claims == 0 && now-info.touched > unlisted {
			sum.Spent = 0 // refilled long ago, and nobody is left to say so
		}
		if sum.Epoch == 0 || !uses(sum) && !t.claimedBy(name, k) {
			continue
		}
		if info.flow {
			s.Flows = append(s.Flows, exchange.FlowSum{Key: k, Claims: sum.Claims, Active: sum.Active, Unsaturated: sum.Unsaturated})
			continue
		}
		sum.Epoch = t.epoch(sum.Epoch)
		s.Keys = append(s.Keys, sum)
	}
	return s
}

// turn counts the calls for a replica.
func (t *Tally) turn(name string) int {
	r := t.replicas[name]
	if r == nil {
		return 0
	}
	r.turn++
	return r.turn
}

// uses tells that others use a key: they claim it, or have lately spent of it.
func uses(s exchange.KeySum) bool { return s.Claims > 0 || s.Active > 0 || s.Spent > 0 }

// claimedBy tells that the replica itself claims the key: then it needs the
// others' counts though they claim nothing now.
func (t *Tally) claimedBy(name string, k uint64) bool {
	for id, o := range t.own {
		if id.name == name {
			if a := o.keys.get(k); a != nil && !a.withdrawn {
				return true
			}
		}
	}
	return false
}

// epoch tells the counts of this agent's table from those of its earlier lives:
// a filter outlives its agent. Never 0.
func (t *Tally) epoch(e uint32) uint32 {
	h := t.o.Incarnation * 0x9e3779b97f4a7c15
	return max(1, e+uint32(h>>32))
}

func (t *Tally) header(now time.Duration, name string) *exchange.Sums {
	s := &exchange.Sums{Replicas: len(t.members), Lag: t.lag(), Weight: 1}
	for _, m := range t.members {
		s.TotalWeight += m.Weight
		if m.Name == name {
			s.Weight = m.Weight
		}
	}
	if s.Replicas == 0 {
		s.Replicas, s.TotalWeight = 1, s.Weight
	}
	s.Isolation = t.isolation(now)
	return s
}

// SameMembers tells that two sums agree on the membership and on this agent's
// isolation; claims and lag may differ.
func SameMembers(a, b *exchange.Sums) bool {
	return a.Replicas == b.Replicas && a.TotalWeight == b.TotalWeight && a.Weight == b.Weight &&
		a.Absent == b.Absent && a.Isolation == b.Isolation
}
