package delivery

import (
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
)

const (
	// Step is the relative move of a share that is published at once. Shares that differ by less are the same to a
	// gateway, which holds a share to within 5 %. Smaller: shares are followed more closely, at more bytes.
	Step = .02
	// Refresh is the time after which a smaller move is published. Longer saves bytes.
	Refresh = 5 * time.Second
	// Everywhere bounds the leases of a round up to which every agent is sent every change, flows × agents: at 250 ms
	// and 40 bytes each 3.2 MB/s. Larger costs bytes.
	Everywhere = 20_000
	// Budget bounds the leases that are sent in a round beyond that, over all agents, without those of new flows: at
	// 250 ms and 40 bytes each 6.4 MB/s.
	Budget = 40_000
	// classes is one more than the times that Step can be doubled.
	classes = 20
)

// Bounds are the allocator's bounds as the API names them.
var Bounds = map[allocation.Bound]quotav1.Bound{
	allocation.ByDemand: quotav1.Bound_DEMAND, allocation.ByGuarantee: quotav1.Bound_GUARANTEED,
	allocation.ByMax: quotav1.Bound_MAX, allocation.ByPool: quotav1.Bound_POOL,
}

// Publisher has the leases and pools as agents are sent them. Not safe for concurrent use.
type Publisher struct {
	expiry   time.Duration
	epoch    int64
	seq      uint64 // of the last round in this epoch
	round    uint64 // rounds in all epochs
	whole    uint64 // receivers that were last served before this round are sent everything
	outcome  *allocation.Outcome
	selected bool // agents are sent the leases of the flows that they use
	silent   bool // another coordinator sends the members
	renewed  bool // the last round changed nothing: what flows are used counts no more
	pools    []pool
	members  membership
	past     []membership // the lists before, newest last
	common   map[from]*Common
	stats    Stats
}

// pool is the state of one pool as agents are sent it.
type pool struct {
	lease     *controlv1.PoolLease
	published time.Duration
	round     uint64 // in which it changed last
}

// Stats are counts since the publisher was made, and what holds now.
type Stats struct {
	Selected bool    // agents are sent the leases of the flows that they use, and no others
	Step     float64 // relative move of a share that is published at once; 0: each move
	Leases   uint64  // sent, over all agents
	Deferred uint64  // moves by Step or more that waited for a later round, by flow
	Whole    uint64  // complete states sent
	Again    uint64  // of these because an agent had missed something
}

// New returns a publisher without leases. expiry is the soft expiry of what it publishes.
func New(expiry time.Duration) *Publisher { return &Publisher{expiry: expiry} }

// Stats returns the counts.
func (p *Publisher) Stats() Stats { return p.stats }

// Begin begins an epoch: every agent is sent everything, once something is published.
func (p *Publisher) Begin(epoch int64) {
	p.epoch, p.seq = epoch, 0
	p.Withdraw()
}

// Silent says whether another coordinator sends agents the members.
func (p *Publisher) Silent(is bool) { p.silent = is }

// Withdraw takes back what was published last: agents are sent nothing until the next round.
func (p *Publisher) Withdraw() { p.outcome, p.common = nil, nil }

// Publish takes the outcome of a round, for so many agents. now does not run back.
func (p *Publisher) Publish(now time.Duration, o *allocation.Outcome, agents int) {
	p.turn()
	p.outcome, p.renewed = o, false
	p.choose(len(o.Flows) * agents)
	step := p.step(o)
	for i := range o.Flows {
		f := &o.Flows[i]
		switch l := f.Lease; {
		case l.Round == 0:
			l.Published = now - Refresh*time.Duration(i%refreshSlots)/refreshSlots
			l.Share, l.Demand, l.Bound, l.Round = f.Share, f.Demand, f.Bound, p.round
		case moved(l.Share, f.Share) >= step && f.Share != l.Share,
			step <= Step && f.Share != l.Share && now-l.Published >= Refresh, demandMoved(l, f):
			l.Share, l.Demand, l.Bound, l.Published, l.Round = f.Share, f.Demand, f.Bound, now, p.round
		}
	}
	p.publishPools(now, o.Pools)
	p.publishMembers(o.Members)
}

// demandMoved reports whether the demand that a share is for has moved by more than a fifth of the share
// since it was published. Gateways charge what a flow uses beyond it as unused capacity. Of a flow that asks
// for more than its share it does not move.
func demandMoved(l *allocation.Lease, f *allocation.FlowShare) bool {
	return math.Abs(min(f.Demand, f.Share)-min(l.Demand, l.Share)) > .2*l.Share
}

// refreshSlots spreads the refreshing of leases that were all published first in one round.
const refreshSlots = 20

// Renew publishes the last outcome once more, unchanged but for ForgetUnused. It reports whether there is
// one. An agent that comes now is sent all leases: which flows it uses is not looked at.
func (p *Publisher) Renew() bool {
	if p.outcome == nil {
		return false
	}
	p.turn()
	p.renewed = true
	return true
}

// ForgetUnused publishes pools without unused capacity: nobody measures any more what is taken.
func (p *Publisher) ForgetUnused() {
	for i := range p.pools {
		if q := &p.pools[i]; q.lease.GetUnused() > 0 {
			q.lease = proto.CloneOf(q.lease)
			q.lease.Unused, q.round = 0, p.round+1
		}
	}
}

// turn begins a round.
func (p *Publisher) turn() {
	p.round++
	p.seq++
	p.common = map[from]*Common{}
}

// choose switches between sending every lease to all agents and only to agents that need it. Between the two bounds it
// stays as it is: a switch sends everything to all agents.
func (p *Publisher) choose(pairs int) {
	selected := pairs > Everywhere || p.selected && 2*pairs > Everywhere
	if selected != p.selected {
		p.selected, p.whole = selected, p.round
	}
	p.stats.Selected = selected
}

// moved returns the relative distance of a share from the published one, at most farthest.
func moved(published, share float64) float64 {
	switch {
	case published == share:
		return 0
	case !(published > 0) || math.IsInf(published, 1):
		return farthest
	}
	return math.Min(math.Abs(share-published)/published, farthest)
}

// farthest is more than Budget ever puts off.
const farthest = Step * (1 << (classes - 1))

// step is the move that is published in this round: Step doubled until it takes at most Budget leases.
func (p *Publisher) step(o *allocation.Outcome) float64 {
	p.stats.Step = 0
	if !p.selected {
		return 0
	}
	var leases, flows [classes]int // by how often the move doubles Step
	total := 0
	for i := range o.Flows {
		f := &o.Flows[i]
		if m := moved(f.Lease.Share, f.Share); m >= Step && f.Lease.Round > 0 {
			class := min(int(math.Log2(m/Step)), len(leases)-1)
			leases[class] += f.Agents
			flows[class]++
			total += f.Agents
		}
	}
	step := Step
	for class := 0; total > Budget && class < len(leases)-1; class++ {
		total -= leases[class]
		p.stats.Deferred += uint64(flows[class])
		step *= 2
	}
	p.stats.Step = step
	return step
}

// publishPools takes what moved of the pools. If there are other pools than before, everybody is sent everything.
func (p *Publisher) publishPools(now time.Duration, shares []allocation.PoolShare) {
	same := func(q pool, s allocation.PoolShare) bool { return q.lease.GetPool() == s.Pool }
	if !slices.EqualFunc(p.pools, shares, same) {
		p.pools, p.whole = make([]pool, len(shares)), p.round
	}
	for i := range shares {
		s, q := &shares[i], &p.pools[i]
		least := 0.0
		if p.selected && now-q.published < Refresh {
			least = Step
		}
		if q.lease != nil && !poolMoved(q.lease, s, least) {
			continue
		}
		*q = pool{published: now, round: p.round, lease: &controlv1.PoolLease{Pool: s.Pool, Price: s.Price,
			FairRate: s.FairRate, IdleShare: s.IdleShare, Capacity: s.Estimate, GuaranteeScale: s.GuaranteeScale,
			Loss: float32(s.Loss), Unused: s.Unused}}
	}
}

// poolMoved reports whether something that a gateway uses has moved by more than least.
func poolMoved(l *controlv1.PoolLease, s *allocation.PoolShare, least float64) bool {
	for _, v := range [...][2]float64{{l.GetIdleShare(), s.IdleShare}, {l.GetPrice(), s.Price},
		{l.GetFairRate(), s.FairRate}, {l.GetCapacity(), s.Estimate}, {l.GetGuaranteeScale(), s.GuaranteeScale},
		{l.GetUnused(), s.Unused}} {
		if moved(v[0], v[1]) > least {
			return true
		}
	}
	return false
}

// header is a message that says nothing yet.
func (p *Publisher) header() *controlv1.Leases {
	return &controlv1.Leases{Epoch: p.epoch, Seq: p.seq, Revision: p.outcome.Revision,
		SoftExpiry: durationpb.New(p.expiry)}
}
