package applied

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
)

// leaseStream is where the stream of leases stands.
type leaseStream struct {
	awaits  bool              // nothing but complete leases counts: those before are missing
	pending *controlv1.Leases // parts of a message whose end has not come
	changes bool              // the coordinator understands reports of changes
}

// BeginStream forgets what an earlier stream has sent a part of.
func (o *State) BeginStream() { o.stream = leaseStream{awaits: true} }

// ReportsChanges reports whether the coordinator understands reports of changes.
func (o *State) ReportsChanges() bool { return o.stream.changes }

// MissedError says that leases change others that this agent does not hold: the coordinator
// must send all of them. Until it has, the older ones stay in force.
type MissedError struct{ reason string }

// Error says what is missing.
func (e *MissedError) Error() string { return e.reason }

func (o *State) missed(format string, args ...any) error {
	o.stream.awaits = true
	return &MissedError{fmt.Sprintf(format, args...)}
}

// Grant is what leases that are in force now say.
type Grant struct {
	Shares  *exchange.Shares
	Members []*controlv1.Replica
	Changed bool          // Members are not those of the leases before
	Until   time.Duration // soft expiry
}

// Leases puts leases in force. It returns nil if they are older than those in force, or if
// more of them follow. A *StaleEpochError means that their coordinator was replaced, a
// *MissedError that leases before them are missing; other errors mean that these leases are
// not usable. With an error the older ones stay in force.
func (o *State) Leases(now time.Duration, l *controlv1.Leases) (*Grant, error) {
	if l.GetEpoch() < o.epoch {
		return nil, &StaleEpochError{Got: l.GetEpoch(), Applied: o.epoch}
	}
	if l = o.join(l); l.GetMore() {
		return nil, nil
	}
	if l.GetBase() == 0 && o.overtaken(l) || l.GetBase() > 0 && o.stream.awaits {
		return nil, nil
	}
	held, err := o.update(l)
	if err != nil {
		return nil, err
	}
	shares, err := o.sharesAfter(held, l)
	if err != nil {
		return nil, err
	}
	g := &Grant{Shares: shares, Members: held.GetMembers(), Until: now + softExpiry(l),
		Changed: !slices.EqualFunc(held.GetMembers(), o.leases.GetMembers(), sameReplica)}
	o.leases, o.shares, o.renewed = held, shares, now
	o.epoch, o.seq = l.GetEpoch(), l.GetSeq()
	o.stream.awaits, o.stream.changes = false, l.GetReportChanges()
	return g, nil
}

// overtaken reports whether complete leases are older than those in force. The first ones of a
// stream may be those in force.
func (o *State) overtaken(l *controlv1.Leases) bool {
	if l.GetEpoch() > o.epoch || o.seq == 0 {
		return false
	}
	return l.GetSeq() < o.seq || l.GetSeq() == o.seq && !o.stream.awaits
}

// join adds a part of a message to those before it. The result has More set until the end is
// there.
func (o *State) join(l *controlv1.Leases) *controlv1.Leases {
	if p := o.stream.pending; p != nil {
		l.Leases = append(p.Leases, l.Leases...)
		l.Removed = append(p.Removed, l.Removed...)
		o.stream.pending = nil
	}
	if l.GetMore() {
		o.stream.pending = l
	}
	return l
}

// update returns what the agent holds after a message, complete.
func (o *State) update(l *controlv1.Leases) (*controlv1.Leases, error) {
	held := &controlv1.Leases{Epoch: l.GetEpoch(), Seq: l.GetSeq(), Revision: l.GetRevision(),
		SoftExpiry: l.GetSoftExpiry(), Leases: l.GetLeases(), Pools: l.GetPools(), Members: l.GetMembers(),
		MembersVersion: l.GetMembersVersion()}
	sortLeases(held.Leases)
	if base := l.GetBase(); base > 0 {
		if l.GetEpoch() != o.leases.GetEpoch() || base != o.seq {
			return nil, o.missed("leases %d of epoch %d change those of %d, and this agent has %d of epoch %d",
				l.GetSeq(), l.GetEpoch(), base, o.seq, o.leases.GetEpoch())
		}
		held.Leases = change(o.leases.GetLeases(), l.GetRemoved(), held.Leases)
		held.Pools = changePools(o.leases.GetPools(), l.GetPools())
	}
	if n := l.GetTotal(); n > 0 && int(n) != len(held.Leases) {
		return nil, o.missed("after leases %d of epoch %d this agent has %d flows, and the coordinator counts %d",
			l.GetSeq(), l.GetEpoch(), len(held.Leases), n)
	}
	return held, o.updateMembers(held, l)
}

// updateMembers completes the members of held after a message.
func (o *State) updateMembers(held, l *controlv1.Leases) error {
	version, have := l.GetMembersVersion(), o.leases.GetMembersVersion()
	switch {
	case version == 0: // of a coordinator that sends all of them each time
	case version == have:
		held.Members = o.leases.GetMembers()
	case l.GetMembersBase() == 0:
	case l.GetMembersBase() != have:
		return o.missed("leases %d of epoch %d change members of version %x, and this agent has %x", l.GetSeq(),
			l.GetEpoch(), l.GetMembersBase(), have)
	default:
		held.Members = changeMembers(o.leases.GetMembers(), l.GetMembersRemoved(), l.GetMembers())
	}
	return nil
}

func changeMembers(old []*controlv1.Replica, removed []string, news []*controlv1.Replica) []*controlv1.Replica {
	touched := make(map[string]bool, len(removed)+len(news))
	for _, name := range removed {
		touched[name] = true
	}
	for _, m := range news {
		touched[m.GetName()] = true
	}
	out := slices.DeleteFunc(slices.Clone(old), func(m *controlv1.Replica) bool { return touched[m.GetName()] })
	out = append(out, news...)
	slices.SortFunc(out, func(a, b *controlv1.Replica) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

func changePools(old, news []*controlv1.PoolLease) []*controlv1.PoolLease {
	out := slices.Clone(old)
	for _, p := range news {
		if i := slices.IndexFunc(out, func(o *controlv1.PoolLease) bool { return o.GetPool() == p.GetPool() }); i >= 0 {
			out[i] = p
		} else {
			out = append(out, p)
		}
	}
	return out
}

// flowName is what leases are ordered by.
type flowName interface {
	GetPool() string
	GetTenant() string
}

func compareFlows[A, B flowName](a A, b B) int {
	return cmp.Or(cmp.Compare(a.GetPool(), b.GetPool()), cmp.Compare(a.GetTenant(), b.GetTenant()))
}

func sortLeases(l []*controlv1.Lease) {
	slices.SortFunc(l, compareFlows)
}

// change returns the leases of old without those removed, and with news in place of those of
// the same flows. old and news are in order. O(all of them).
func change(old []*controlv1.Lease, removed []*controlv1.FlowName, news []*controlv1.Lease) []*controlv1.Lease {
	if len(removed)+len(news) == 0 {
		return old
	}
	slices.SortFunc(removed, compareFlows)
	out := make([]*controlv1.Lease, 0, len(old)+len(news))
	for _, l := range old {
		for len(removed) > 0 && compareFlows(removed[0], l) < 0 {
			removed = removed[1:]
		}
		for len(news) > 0 && compareFlows(news[0], l) < 0 {
			out, news = append(out, news[0]), news[1:]
		}
		switch {
		case len(news) > 0 && compareFlows(news[0], l) == 0:
			out, news = append(out, news[0]), news[1:]
		case len(removed) > 0 && compareFlows(removed[0], l) == 0:
		default:
			out = append(out, l)
		}
	}
	return append(out, news...)
}

func sameReplica(a, b *controlv1.Replica) bool {
	return a.GetName() == b.GetName() && a.GetWeight() == b.GetWeight()
}

// sharesAfter is what the gateways are to enforce after a message; the shares in force where it
// changes none of them.
func (o *State) sharesAfter(held, l *controlv1.Leases) (*exchange.Shares, error) {
	s := o.shares
	if l.GetBase() > 0 && s != nil && !s.Stale && s.Revision == held.GetRevision() &&
		len(l.GetLeases())+len(l.GetRemoved())+len(l.GetPools()) == 0 {
		return s, nil
	}
	return sharesOf(held)
}

func sharesOf(l *controlv1.Leases) (*exchange.Shares, error) {
	s := &exchange.Shares{Epoch: l.GetEpoch(), Revision: l.GetRevision(),
		Flows: make([]exchange.Share, 0, len(l.GetLeases()))}
	for _, x := range l.GetLeases() {
		if !usable(x.GetShare()) {
			return nil, fmt.Errorf("leases of epoch %d: share of tenant %q in pool %q is %v, want >= 0", l.GetEpoch(),
				x.GetTenant(), x.GetPool(), x.GetShare())
		}
		s.Flows = append(s.Flows, exchange.Share{Tenant: x.GetTenant(), Pool: x.GetPool(), Share: x.GetShare()})
	}
	for _, p := range l.GetPools() {
		if !usable(p.GetPrice()) || !usable(p.GetIdleShare()) || !usable(p.GetGuaranteeScale()) {
			return nil, fmt.Errorf("leases of epoch %d: pool %q has price %v, idle share %v and guarantee scale %v, "+
				"want all >= 0", l.GetEpoch(), p.GetPool(), p.GetPrice(), p.GetIdleShare(), p.GetGuaranteeScale())
		}
		s.Pools = append(s.Pools, exchange.PoolShare{Pool: p.GetPool(), Price: p.GetPrice(),
			IdleShare: p.GetIdleShare(), GuaranteeScale: p.GetGuaranteeScale()})
	}
	return s, nil
}

func usable(v float64) bool { return v >= 0 } // NaN is not

func softExpiry(l *controlv1.Leases) time.Duration {
	if d := l.GetSoftExpiry().AsDuration(); d > 0 {
		return d
	}
	return defaultSoftExpiry
}
