package aggregation

import (
	"cmp"
	"slices"
	"time"

	"github.com/titrate/titrate/control/claims"
	"github.com/titrate/titrate/control/exchange"
)

// notes are the keys whose sums have changed, in the order of the changes. Only a key's latest note counts, so that a
// gateway is sent it once.
type notes struct {
	list  []note
	last  uint64 // stamp
	from  uint64 // notes up to this one may have been forgotten
	inUse int    // keys that are
}

type note struct{ key, stamp uint64 }

func (n *notes) add(key uint64) uint64 {
	n.last++
	n.list = append(n.list, note{key, n.last})
	return n.last
}

// after returns the notes after a stamp, false if some were forgotten.
func (n *notes) after(stamp uint64) ([]note, bool) {
	i, _ := slices.BinarySearchFunc(n.list, stamp+1, func(a note, stamp uint64) int {
		return cmp.Compare(a.stamp, stamp)
	})
	return n.list[i:], stamp >= n.from
}

// note notes that the sums of a key may have changed.
func (t *Aggregator) note(now time.Duration, at uint64, k *key) {
	k.touched, k.stamp = now, t.notes.add(at)
	t.count(now, at, k)
	if n := &t.notes; len(n.list) > 2*t.keys.len()+1024 {
		older := n.list[len(n.list)/2].stamp
		n.list = slices.DeleteFunc(n.list, func(x note) bool {
			k := t.keys.get(x.key)
			gone := k == nil && x.stamp < older
			if gone {
				n.from = max(n.from, x.stamp)
			}
			return gone || k != nil && k.stamp != x.stamp
		})
	}
}

// noteKey is note for a key that may not be there.
func (t *Aggregator) noteKey(now time.Duration, at uint64) {
	if k := t.keys.get(at); k != nil {
		t.note(now, at, k)
	}
}

// count finds out whether a key is in use.
func (t *Aggregator) count(now time.Duration, at uint64, k *key) bool {
	t.setInUse(k, t.table.InUse(at, now.Seconds()))
	return k.inUse
}

func (t *Aggregator) setInUse(k *key, is bool) {
	switch {
	case is && !k.inUse:
		t.notes.inUse++
	case !is && k.inUse:
		t.notes.inUse--
	}
	k.inUse = is
}

// Sums returns what all other replicas claim, for one replica of this agent, and a stamp.
// They have changed since the stamp that came with the sums before; all are returned if
// since is 0. The result is the caller's. O(keys that have changed).
func (t *Aggregator) Sums(now time.Duration, name string, since uint64) (*exchange.Sums, uint64) {
	t.updateMembers(now)
	t.hearLocals(now)
	t.tellOwn(now)
	s := t.header(now, name)
	except := t.id(name)
	s.Absent = t.table.Absent(except, now.Seconds())
	changes, ok := t.notes.after(since)
	if s.Full = since == 0 || !ok; s.Full {
		s.Keys = make([]exchange.KeySum, 0, t.notes.inUse)
		for i, at := range t.keys.keys {
			t.addSum(now, s, except, name, at, t.keys.values[i])
		}
		return s, t.notes.last
	}
	s.Keys = make([]exchange.KeySum, 0, min(len(changes), t.changes+t.changes/4))
	for _, n := range changes {
		if k := t.keys.get(n.key); k == nil || k.stamp == n.stamp {
			t.addSum(now, s, except, name, n.key, k)
		}
	}
	t.changes = len(s.Keys)
	return s, t.notes.last
}

// addSum adds what the others do with one key, if they do anything; k is nil if it is
// forgotten.
func (t *Aggregator) addSum(now time.Duration, s *exchange.Sums, except claims.Peer, name string, at uint64, k *key) {
	if t.awaitsOwner(k) {
		return
	}
	all := len(s.Flows) + len(s.Keys)
	shown := func(sum *exchange.KeySum) bool { return sum.Epoch != 0 && (inUse(*sum) || t.claimedBy(name, at)) }
	if k != nil && k.kinds&ofFlow != 0 {
		if sum := t.table.FlowSums(at, except, now.Seconds()); shown(&sum) {
			s.Flows = append(s.Flows, exchange.FlowSum{Key: at, Claims: sum.Claims, Active: sum.Active,
				Unsaturated: sum.Unsaturated})
		}
	}
	if k != nil && k.kinds&ofLimit != 0 {
		if sum := t.table.Sums(at, except, now.Seconds()); shown(&sum) {
			sum.Epoch, sum.Abroad = t.epoch(sum.Epoch), sum.Abroad || k.abroad
			s.Keys = append(s.Keys, sum)
		}
	}
	if !s.Full && len(s.Flows)+len(s.Keys) == all {
		s.Gone = append(s.Gone, at)
	}
}

// awaitsOwner reports whether the first sum of the owner of a key is on its way; k may be nil.
func (t *Aggregator) awaitsOwner(k *key) bool {
	return k != nil && k.owner != "" && k.source == nil && !t.sharesAll(k)
}

// inUse reports whether others use a key: they claim it, or have spent some of it.
func inUse(s exchange.KeySum) bool { return s.Claims > 0 || s.Active > 0 || s.Spent > 0 }

// claimedBy reports whether the replica itself claims the key: it needs the others'
// counts then, even if they claim nothing now.
func (t *Aggregator) claimedBy(name string, k uint64) bool {
	for _, o := range t.sortedLocals() {
		if o.name == name {
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
	s := &exchange.Sums{Replicas: len(t.members), Lag: t.Lag(), Weight: 1}
	s.TotalWeight = t.weights
	if i, ok := find(t.members, name); ok {
		s.Weight = t.members[i].Weight
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
		a.Absent == b.Absent && a.Isolation == b.Isolation && a.Exact == b.Exact
}
