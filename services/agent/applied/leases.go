package applied

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/wording"
)

// Stream is the state of one stream of leases from a coordinator.
type Stream struct {
	state   *State
	leases  *controlv1.Leases // complete, whatever was sent last; nil: nothing yet
	renewed time.Duration     // when they came, or were renewed
	every   time.Duration     // that was after the renewal before; 0: there was none
	members membership        // that the agent holds as this coordinator knows it
	awaits  bool              // nothing but complete leases counts: those before are missing
	pending *controlv1.Leases // parts of a message whose end has not come
	changes bool              // the coordinator understands reports of changes
	silent  bool              // the coordinator sends no members: another one does
}

// membership is a list of members.
type membership struct {
	list    []*controlv1.Replica
	version uint64 // 0 = it has none
}

// Stream begins a stream. The agent's Hello names the members in force: the coordinator sends changes of those.
func (o *State) Stream() *Stream { return &Stream{state: o, members: o.members, awaits: true} }

// ReportsChanges reports whether the coordinator understands reports of changes.
func (s *Stream) ReportsChanges() bool { return s.changes }

// until returns the time at which the soft expiry of the leases passes.
func (s *Stream) until() time.Duration { return s.renewed + softExpiry(s.leases) }

// unusedFor is the least time for which the unused capacity of pools may be used after leases were renewed. A
// coordinator renews leases that have not changed each second.
const unusedFor = 2 * time.Second

// measures reports whether the coordinator goes on measuring what is used: it has renewed its leases within
// two of its rounds.
func (s *Stream) measures(now time.Duration) bool {
	return s != nil && now-s.renewed < max(unusedFor, 2*s.every)
}

// MissedError says that leases change others that this agent does not hold: the coordinator
// must send all of them. Until it has, the older ones stay in force.
type MissedError struct{ reason string }

// Error says what is missing.
func (e *MissedError) Error() string { return e.reason }

func (s *Stream) missed(format string, args ...any) error {
	s.awaits = true
	return &MissedError{fmt.Sprintf(format, args...)}
}

// Grant has the content of the leases that are in force now.
type Grant struct {
	Shares *exchange.Shares
	// Members are those in force, and hold until Until. Until is 0 if the leases say nothing of
	// them: another coordinator does.
	Members []*controlv1.Replica
	Changed bool // Members are not those of the leases before
	Until   time.Duration
}

// Leases puts leases in force. It returns nil if they are older than those in force, or if
// more of them follow. A *StaleEpochError means that their coordinator was replaced, a
// *MissedError that leases before them are missing; other errors mean that these leases are
// not usable. With an error the older ones stay in force.
func (s *Stream) Leases(now time.Duration, l *controlv1.Leases) (*Grant, error) {
	o := s.state
	if l.GetEpoch() < s.leases.GetEpoch() {
		return nil, &StaleEpochError{Got: l.GetEpoch(), Applied: o.epoch}
	}
	if l = s.join(l); l.GetMore() {
		return nil, nil
	}
	if l.GetBase() == 0 && s.overtaken(l) || l.GetBase() > 0 && s.awaits {
		return nil, nil
	}
	held, members, err := s.update(l)
	if err != nil {
		return nil, err
	}
	if err := checkNumbers(l); err != nil {
		return nil, err
	}
	if !o.believes(held) {
		return nil, &StaleEpochError{Got: l.GetEpoch(), Applied: o.epoch}
	}
	before := *s
	if s.leases != nil {
		s.every = now - s.renewed
	}
	s.leases, s.members, s.renewed = held, members, now
	s.awaits, s.changes, s.silent = false, l.GetReportChanges(), l.GetWithoutMembers()
	return o.putInForce(s, &before, l), nil
}

// overtaken reports whether complete leases are older than those received last. The first ones of
// a stream may be those in force.
func (s *Stream) overtaken(l *controlv1.Leases) bool {
	if s.leases == nil || l.GetEpoch() > s.leases.GetEpoch() {
		return false
	}
	return l.GetSeq() < s.leases.GetSeq() || l.GetSeq() == s.leases.GetSeq() && !s.awaits
}

// join adds a part of a message to those before it. The result has More set until the end is there.
func (s *Stream) join(l *controlv1.Leases) *controlv1.Leases {
	if p := s.pending; p != nil {
		l.Leases = append(p.Leases, l.Leases...)
		l.Removed = append(p.Removed, l.Removed...)
		s.pending = nil
	}
	if l.GetMore() {
		s.pending = l
	}
	return l
}

// update returns what the coordinator has sent after a message, complete.
func (s *Stream) update(l *controlv1.Leases) (*controlv1.Leases, membership, error) {
	held := &controlv1.Leases{Epoch: l.GetEpoch(), Seq: l.GetSeq(), Revision: l.GetRevision(),
		SoftExpiry: l.GetSoftExpiry(), Leases: l.GetLeases(), Pools: l.GetPools()}
	sortLeases(held.Leases)
	if base := l.GetBase(); base > 0 {
		if l.GetEpoch() != s.leases.GetEpoch() || base != s.leases.GetSeq() {
			return nil, membership{}, s.missed("leases %d of epoch %d change those of %d, and this agent has %d of "+
				"epoch %d", l.GetSeq(), l.GetEpoch(), base, s.leases.GetSeq(), s.leases.GetEpoch())
		}
		held.Leases = change(s.leases.GetLeases(), l.GetRemoved(), held.Leases)
		held.Pools = changePools(s.leases.GetPools(), l.GetPools())
	}
	if n := l.GetTotal(); n > 0 && int(n) != len(held.Leases) {
		return nil, membership{}, s.missed("after leases %d of epoch %d this agent has %s, and the coordinator "+
			"counts %d", l.GetSeq(), l.GetEpoch(), wording.Count(len(held.Leases), "flow"), n)
	}
	members, err := s.updateMembers(l)
	if err != nil {
		return nil, membership{}, err
	}
	held.Members, held.MembersVersion = members.list, members.version
	return held, members, nil
}

// updateMembers returns the members after a message.
func (s *Stream) updateMembers(l *controlv1.Leases) (membership, error) {
	version, have := l.GetMembersVersion(), s.members
	switch {
	case l.GetWithoutMembers():
		return have, nil
	case version > 0 && version == have.version:
		return have, nil
	case version == 0, l.GetMembersBase() == 0: // all of them; each time, if they have no version
		return membership{l.GetMembers(), version}, nil
	case l.GetMembersBase() != have.version:
		return membership{}, s.missed("leases %d of epoch %d change members of version %x, and this agent has %x",
			l.GetSeq(), l.GetEpoch(), l.GetMembersBase(), have.version)
	}
	return membership{changeMembers(have.list, l.GetMembersRemoved(), l.GetMembers()), version}, nil
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

// flowName is a flow, the key by which leases are sorted.
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

// checkNumbers says which number of a message a filter cannot compute with.
func checkNumbers(l *controlv1.Leases) error {
	for _, x := range l.GetLeases() {
		if !usable(x.GetShare()) {
			return fmt.Errorf("leases of epoch %d: share of tenant %q in pool %q is %v, want >= 0", l.GetEpoch(),
				x.GetTenant(), x.GetPool(), x.GetShare())
		}
	}
	for _, p := range l.GetPools() {
		for _, v := range [...]float64{p.GetPrice(), p.GetIdleShare(), p.GetGuaranteeScale(), p.GetUnused()} {
			if !usable(v) {
				return fmt.Errorf("leases of epoch %d: pool %q has price %v, idle share %v, guarantee scale %v and "+
					"unused capacity %v, want all >= 0", l.GetEpoch(), p.GetPool(), p.GetPrice(), p.GetIdleShare(),
					p.GetGuaranteeScale(), p.GetUnused())
			}
		}
	}
	return nil
}

func usable(v float64) bool { return v >= 0 } // NaN is not

func softExpiry(l *controlv1.Leases) time.Duration {
	if d := l.GetSoftExpiry().AsDuration(); d > 0 {
		return d
	}
	return defaultSoftExpiry
}
