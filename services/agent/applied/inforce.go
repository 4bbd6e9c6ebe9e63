package applied

import (
	"cmp"
	"slices"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"google.golang.org/protobuf/proto"
)

// holder says whose leases of a pool are in force.
type holder struct {
	epoch int64   // under which they were sent
	from  *Stream // that has them; &State.rest: nobody renews them
}

// believes reports whether leases may be put in force, at least those of some pool: that pool was
// not sent under a higher epoch.
func (o *State) believes(l *controlv1.Leases) bool {
	if l.GetEpoch() >= o.epoch {
		return true
	}
	for name := range poolsOf(l) {
		if o.pools[name].epoch <= l.GetEpoch() {
			return true
		}
	}
	return false
}

// poolsOf are the pools that leases name.
func poolsOf(l *controlv1.Leases) map[string]bool {
	named := make(map[string]bool, len(l.GetPools()))
	for _, p := range l.GetPools() {
		named[p.GetPool()] = true
	}
	for _, run := range runs(l.GetLeases()) {
		named[run[0].GetPool()] = true
	}
	return named
}

// runs cuts leases, which are in order, into those of each pool.
func runs(leases []*controlv1.Lease) (out [][]*controlv1.Lease) {
	for begin := 0; begin < len(leases); {
		pool, end := leases[begin].GetPool(), begin+1
		for end < len(leases) && leases[end].GetPool() == pool {
			end++
		}
		out, begin = append(out, leases[begin:end:end]), end
	}
	return out
}

// putInForce puts in force what a stream has after the message l; before is the stream as it was before that message.
func (o *State) putInForce(s, before *Stream, l *controlv1.Leases) *Grant {
	changed := o.reconfigured || l.GetBase() == 0 || len(l.GetLeases())+len(l.GetRemoved())+len(l.GetPools()) > 0
	if changed {
		o.assign(s, before)
		o.reconfigured = false
	}
	g := &Grant{}
	if l.GetEpoch() >= o.epoch {
		o.epoch = l.GetEpoch()
		if !s.silent {
			g.Until = s.until()
			g.Changed = !slices.EqualFunc(s.members.list, o.members.list, sameReplica)
			o.members = s.members
		}
	}
	o.leases = o.merged(s, changed)
	stale := o.shares != nil && o.shares.Stale && o.expired(s.renewed) // those of another coordinator
	if changed || o.lapsed || o.shares.Stale != stale || o.shares.Revision != o.leases.GetRevision() {
		o.shares = o.sharesOf(o.leases, s.renewed)
		o.shares.Stale = stale
	}
	g.Shares, g.Members = o.shares, o.members.list
	return g
}

// assign notes whose leases of each pool are in force, after the leases of a stream or the
// configuration have changed. A pool that the stream names no more has another leader: its leases
// stay in force until that one sends them. A pool that the configuration does not have is forgotten.
func (o *State) assign(s, before *Stream) {
	if o.pools == nil {
		o.pools = map[string]holder{}
	}
	epoch, named := s.leases.GetEpoch(), poolsOf(s.leases)
	for name := range named {
		if o.pools[name].epoch <= epoch {
			o.pools[name] = holder{epoch, s}
		}
	}
	configured, left := o.configured(), map[string]bool{}
	for name, h := range o.pools {
		switch current := h.from == s && named[name]; {
		case current:
		case !configured[name]:
			delete(o.pools, name)
		case h.from == s:
			left[name], o.pools[name] = true, holder{h.epoch, &o.rest}
		}
	}
	if len(left) > 0 {
		o.keep(before, left)
	}
	o.holders = slices.DeleteFunc(o.holders, func(h *Stream) bool { return h == s || !o.holds(h) })
	if o.holds(s) || len(o.holders) == 0 {
		o.holders = append(o.holders, s)
	}
}

// holds reports whether a stream's leases of some pool are in force.
func (o *State) holds(s *Stream) bool {
	for _, h := range o.pools {
		if h.from == s {
			return true
		}
	}
	return false
}

// Has reports whether the configuration in force has a pool.
func (o *State) Has(pool string) bool {
	c := o.Configuration()
	return c != nil && slices.ContainsFunc(c.Shared().Pools, func(p config.Pool) bool { return p.Name == pool })
}

// configured are the pools of the configuration in force.
func (o *State) configured() map[string]bool {
	out := map[string]bool{}
	if c := o.Configuration(); c != nil {
		for _, p := range c.Shared().Pools {
			out[p.Name] = true
		}
	}
	return out
}

// keep adds what a stream has of some pools to the leases that nobody renews.
func (o *State) keep(from *Stream, pools map[string]bool) {
	old := o.rest
	o.rest = Stream{state: o, renewed: from.renewed, leases: &controlv1.Leases{SoftExpiry: from.leases.GetSoftExpiry(),
		Revision: max(from.leases.GetRevision(), old.leases.GetRevision())}}
	if slices.Contains(o.holders, &o.rest) {
		o.rest.renewed = min(from.renewed, old.renewed)
	}
	o.rest.add(old.leases, func(name string) bool { return o.pools[name].from == &o.rest && !pools[name] })
	o.rest.add(from.leases, func(name string) bool { return pools[name] })
	sortLeases(o.rest.leases.Leases)
	if !slices.Contains(o.holders, &o.rest) {
		o.holders = append(o.holders, &o.rest)
	}
}

// add adds some pools of leases.
func (s *Stream) add(l *controlv1.Leases, wanted func(pool string) bool) {
	for _, p := range l.GetPools() {
		if wanted(p.GetPool()) {
			s.leases.Pools = append(s.leases.Pools, p)
		}
	}
	for _, run := range runs(l.GetLeases()) {
		if wanted(run[0].GetPool()) {
			s.leases.Leases = append(s.leases.Leases, run...)
		}
	}
}

// merged returns the leases in force of all pools, after the leases of a stream have changed or were renewed.
func (o *State) merged(s *Stream, changed bool) *controlv1.Leases {
	if len(o.holders) == 1 && o.holders[0] == s && !s.silent {
		return s.leases
	}
	if !changed && o.leases.GetRevision() >= s.leases.GetRevision() &&
		o.leases.GetMembersVersion() == o.members.version {
		return o.leases
	}
	out := &controlv1.Leases{Epoch: o.epoch, SoftExpiry: s.leases.GetSoftExpiry(), Members: o.members.list,
		MembersVersion: o.members.version}
	var flows [][]*controlv1.Lease
	for _, h := range o.holders {
		out.Revision = max(out.Revision, h.leases.GetRevision())
		for _, p := range h.leases.GetPools() {
			if at := o.pools[p.GetPool()]; at.from == h {
				out.Pools = append(out.Pools, ofEpoch(p, at.epoch))
			}
		}
		for _, run := range runs(h.leases.GetLeases()) {
			if o.pools[run[0].GetPool()].from == h {
				flows = append(flows, run)
			}
		}
	}
	slices.SortFunc(flows, func(a, b []*controlv1.Lease) int { return cmp.Compare(a[0].GetPool(), b[0].GetPool()) })
	out.Leases = slices.Concat(flows...)
	return out
}

// ofEpoch is a pool's lease with the epoch that it was sent under.
func ofEpoch(p *controlv1.PoolLease, epoch int64) *controlv1.PoolLease {
	if p.GetEpoch() == epoch {
		return p
	}
	p = proto.CloneOf(p)
	p.Epoch = epoch
	return p
}

// Held are the leases in force of some pools, nil for all, each pool with the epoch under which it was sent.
func (o *State) Held(pools []string) ([]*controlv1.PoolLease, []*controlv1.Lease) {
	wanted := func(name string) bool { return pools == nil || slices.Contains(pools, name) }
	var held []*controlv1.PoolLease
	for _, p := range o.leases.GetPools() {
		if wanted(p.GetPool()) {
			held = append(held, ofEpoch(p, o.pools[p.GetPool()].epoch))
		}
	}
	if pools == nil {
		return held, o.leases.GetLeases()
	}
	var flows []*controlv1.Lease
	for _, run := range runs(o.leases.GetLeases()) {
		if wanted(run[0].GetPool()) {
			flows = append(flows, run...)
		}
	}
	return held, flows
}

// sharesOf returns the shares for the gateways. Its epoch does not fall. A pool has no unused capacity while its
// coordinator is unreachable.
func (o *State) sharesOf(l *controlv1.Leases, now time.Duration) *exchange.Shares {
	s := &exchange.Shares{Epoch: l.GetEpoch(), Revision: l.GetRevision(),
		Flows: make([]exchange.Share, 0, len(l.GetLeases()))}
	if o.shares != nil {
		s.Epoch = max(s.Epoch, o.shares.Epoch)
	}
	for _, x := range l.GetLeases() {
		s.Flows = append(s.Flows, exchange.Share{Tenant: x.GetTenant(), Pool: x.GetPool(), Share: x.GetShare(),
			Demand: float64(x.GetDemand())})
	}
	o.lapsed = false
	for _, p := range l.GetPools() {
		unused := p.GetUnused()
		if unused > 0 && !o.pools[p.GetPool()].from.measures(now) {
			unused, o.lapsed = 0, true
		}
		s.Pools = append(s.Pools, exchange.PoolShare{Pool: p.GetPool(), Price: p.GetPrice(),
			IdleShare: p.GetIdleShare(), GuaranteeScale: p.GetGuaranteeScale(), Unused: unused})
	}
	return s
}

// lapse takes back the unused capacity of pools whose coordinators are unreachable. It reports whether there was any.
func (o *State) lapse(now time.Duration) bool {
	lapses := func(p exchange.PoolShare) bool { return p.Unused > 0 && !o.pools[p.Pool].from.measures(now) }
	if !slices.ContainsFunc(o.shares.Pools, lapses) {
		return false
	}
	o.shares = o.sharesOf(o.leases, now)
	return true
}

// expired reports whether the soft expiry of some pool's leases has passed.
func (o *State) expired(now time.Duration) bool {
	return slices.ContainsFunc(o.holders, func(h *Stream) bool { return now >= h.until() })
}
