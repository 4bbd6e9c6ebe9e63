package aggregation

import (
	"time"

	"github.com/titrate/titrate/control/exchange"
)

// Sums returns what all other replicas claim, for one replica of this agent: the keys that
// are claimed or have changed lately, and a part of the other keys, so that 64 calls list
// all of them. The result is the caller's.
func (t *Aggregator) Sums(now time.Duration, name string) *exchange.Sums {
	t.updateMembers(now)
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
			sum.Spent = 0 // refilled long ago, but no replica is left that reports it
		}
		if sum.Epoch == 0 || !inUse(sum) && !t.claimedBy(name, k) {
			continue
		}
		if info.flow {
			s.Flows = append(s.Flows, exchange.FlowSum{Key: k, Claims: sum.Claims, Active: sum.Active,
				Unsaturated: sum.Unsaturated})
			continue
		}
		sum.Epoch = t.epoch(sum.Epoch)
		s.Keys = append(s.Keys, sum)
	}
	return s
}

// turn counts the calls for a replica.
func (t *Aggregator) turn(name string) int {
	r := t.replicas[name]
	if r == nil {
		return 0
	}
	r.turn++
	return r.turn
}

// inUse reports whether others use a key: they claim it, or have lately spent some of it.
func inUse(s exchange.KeySum) bool { return s.Claims > 0 || s.Active > 0 || s.Spent > 0 }

// claimedBy reports whether the replica itself claims the key: it needs the others'
// counts then, even if they claim nothing now.
func (t *Aggregator) claimedBy(name string, k uint64) bool {
	for id, o := range t.locals {
		if id.name == name {
			if a := o.keys.get(k); a != nil && !a.withdrawn {
				return true
			}
		}
	}
	return false
}

// epoch makes the epochs of this process differ from those of the agent's earlier
// processes, since a filter outlives its agent. Never 0.
func (t *Aggregator) epoch(e uint32) uint32 {
	h := t.o.Incarnation * 0x9e3779b97f4a7c15
	return max(1, e+uint32(h>>32))
}

func (t *Aggregator) header(now time.Duration, name string) *exchange.Sums {
	s := &exchange.Sums{Full: true, Replicas: len(t.members), Lag: t.Lag(), Weight: 1}
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

// SameMembers reports whether two sums agree on the membership and on this agent's
// isolation; claims and lag may differ.
func SameMembers(a, b *exchange.Sums) bool {
	return a.Replicas == b.Replicas && a.TotalWeight == b.TotalWeight && a.Weight == b.Weight &&
		a.Absent == b.Absent && a.Isolation == b.Isolation
}
