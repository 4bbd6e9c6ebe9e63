package delivery

import (
	"time"

	"google.golang.org/protobuf/proto"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
)

const (
	// Renew is the time after which an agent is sent a renewal, if none of its leases has changed. Well below the 5 s
	// after which it takes an unreachable coordinator for dead.
	Renew = time.Second
	// ChunkBytes is about how large the own part of one message gets, well below gRPC's default limit of 4 MiB.
	ChunkBytes = 1 << 20
	// maxRemoved bounds the leases that are taken back one by one; beyond, everything is sent.
	maxRemoved = 10_000
)

// Receiver is the record of what one agent's stream was sent.
type Receiver struct {
	agent   string
	changes bool // the agent understands changes
	epoch   int64
	seq     uint64 // of the last message; 0 = everything is to be sent
	round   uint64
	at      time.Duration
	members uint64                       // version of the list that it holds
	has     map[*allocation.Lease]uint64 // leases that it holds; the number is the message's
	message uint64
}

// NewReceiver returns the Receiver of an agent that has said hello.
func NewReceiver(h *controlv1.Hello) *Receiver {
	return &Receiver{agent: h.GetAgent(), changes: h.GetChanges(), members: h.GetMembers(),
		has: map[*allocation.Lease]uint64{}}
}

// Agent is its name.
func (r *Receiver) Agent() string { return r.agent }

// Again makes the next message complete: the agent has missed something.
func (p *Publisher) Again(r *Receiver) {
	r.seq, r.members = 0, 0
	p.stats.Again++
}

// Message is one message to an agent: its own leases, and what others are sent as well. One of them may be nil.
type Message struct {
	Own    *controlv1.Leases
	Common *Common
}

// Common is the part of a message that several agents are sent.
type Common struct {
	Leases  *controlv1.Leases
	Encoded []byte // a ConnectResponse
	Err     error  // why it cannot be encoded
}

// Leases is the message as a reader of both parts has it. The pools and members in it are shared.
func (m Message) Leases() *controlv1.Leases {
	if m.Common == nil {
		return m.Own
	}
	c := m.Common.Leases
	return &controlv1.Leases{
		Epoch: c.Epoch, Seq: c.Seq, Revision: c.Revision, SoftExpiry: c.SoftExpiry, Base: c.Base, Pools: c.Pools,
		Members: c.Members, MembersVersion: c.MembersVersion, MembersBase: c.MembersBase,
		MembersRemoved: c.MembersRemoved, ReportChanges: c.ReportChanges, WithoutMembers: c.WithoutMembers,
		Leases: m.Own.GetLeases(), Removed: m.Own.GetRemoved(), Total: m.Own.GetTotal(),
	}
}

// from is the state of the receivers that share one common part.
type from struct {
	changes bool
	seq     uint64 // 0: everything is sent
	round   uint64
	members uint64
}

// needsAll reports whether the agent needs all leases: it takes no changes, or has another state than they change.
func (r *Receiver) needsAll(p *Publisher) bool {
	return !r.changes || r.seq == 0 || r.epoch != p.epoch || r.round < p.whole
}

// Next returns what the agent is to be sent now, nil if it has everything. used calls its
// argument with the leases of the flows that the agent uses.
func (p *Publisher) Next(now time.Duration, r *Receiver, used func(yield func(*allocation.Lease))) []Message {
	if p.outcome == nil || !r.changes && r.epoch == p.epoch && r.seq == p.seq {
		return nil
	}
	whole := r.needsAll(p)
	own := p.own(r, whole, used)
	if len(own.Removed) > maxRemoved {
		whole, own = true, p.own(r, true, used)
	}
	common := p.commonFor(r, whole)
	news := whole || len(own.Leases) > 0 || len(own.Removed) > 0
	if !news && (r.seq == p.seq || !common.news() && now-r.at < Renew-Renew/8) {
		return nil
	}
	p.sent(now, r, len(own.Leases), whole)
	if !news {
		return []Message{{Common: common}}
	}
	return cut(own, common)
}

// sent notes what an agent is sent: so many leases, all of them or what changed.
func (p *Publisher) sent(now time.Duration, r *Receiver, leases int, whole bool) {
	p.stats.Leases += uint64(leases)
	if whole && r.changes {
		p.stats.Whole++
	}
	r.epoch, r.seq, r.round, r.at = p.epoch, p.seq, p.round, now
	if r.changes && !p.silent {
		r.members = p.members.version
	}
}

// own returns the part of a message that concerns this agent alone.
func (p *Publisher) own(r *Receiver, whole bool, used func(yield func(*allocation.Lease))) *controlv1.Leases {
	m := &controlv1.Leases{}
	if p.renewed && !whole {
		return m
	}
	r.message++
	held := 0
	p.wanted(used, func(l *allocation.Lease) {
		if l.Round == 0 {
			return // not published yet
		}
		at, has := r.has[l]
		if at == r.message {
			return
		}
		r.has[l] = r.message
		held++
		if whole || !has || l.Round > r.round {
			m.Leases = append(m.Leases, &controlv1.Lease{Tenant: l.Tenant, Pool: l.Pool, Share: l.Share,
				BoundBy: Bounds[l.Bound], Demand: float32(l.Demand)})
		}
	})
	if held < len(r.has) {
		for l, at := range r.has {
			if at != r.message {
				delete(r.has, l)
				m.Removed = append(m.Removed, &controlv1.FlowName{Tenant: l.Tenant, Pool: l.Pool})
			}
		}
	}
	if whole {
		m.Removed = nil
	}
	if r.changes {
		m.Total = uint32(held)
	}
	return m
}

// wanted calls yield with the leases that an agent should have.
func (p *Publisher) wanted(used func(yield func(*allocation.Lease)), yield func(*allocation.Lease)) {
	if p.selected && !p.renewed {
		used(yield)
		return
	}
	for i := range p.outcome.Flows {
		yield(p.outcome.Flows[i].Lease)
	}
}

// commonFor returns the common part for a receiver. It is made once for all receivers that have been sent the same.
func (p *Publisher) commonFor(r *Receiver, whole bool) *Common {
	key := from{changes: r.changes}
	if r.changes {
		key.members = r.members
	}
	if !whole {
		key.seq, key.round = r.seq, r.round
	}
	if c := p.common[key]; c != nil {
		return c
	}
	m := p.header()
	m.Base, m.ReportChanges = key.seq, true
	for _, q := range p.pools {
		if q.round > key.round {
			m.Pools = append(m.Pools, q.lease)
		}
	}
	switch m.WithoutMembers = p.silent; {
	case p.silent:
	case r.changes:
		p.addMembers(m, key.members)
	default:
		m.Members = replicas(p.members.list)
	}
	c := &Common{Leases: m}
	c.Encoded, c.Err = proto.Marshal(&controlv1.ConnectResponse{Message: &controlv1.ConnectResponse_Leases{Leases: m}})
	p.common[key] = c
	return c
}

// news reports that the common part says more than that the leases hold.
func (c *Common) news() bool {
	return len(c.Leases.GetPools())+len(c.Leases.GetMembers())+len(c.Leases.GetMembersRemoved()) > 0
}

// cut cuts the own part into messages of at most about ChunkBytes.
func cut(own *controlv1.Leases, common *Common) []Message {
	var out []Message
	for {
		n := chunk(own.GetLeases())
		if n == len(own.GetLeases()) {
			return append(out, Message{own, common})
		}
		out = append(out, Message{Own: &controlv1.Leases{Epoch: common.Leases.GetEpoch(), Seq: common.Leases.GetSeq(),
			Leases: own.Leases[:n], More: true}})
		own.Leases = own.Leases[n:]
	}
}

// chunk counts the leases that go into one message.
func chunk(leases []*controlv1.Lease) int {
	size := 0
	for i, l := range leases {
		if size += len(l.GetTenant()) + len(l.GetPool()) + leaseBytes; size > ChunkBytes && i > 0 {
			return i
		}
	}
	return len(leases)
}

// leaseBytes is the size of a lease on the wire without its names.
const leaseBytes = 24
