// Package decisions collects decisions about single requests for the agent. The agent keeps them, so that
// `titrate why` can say why a request was refused.
//
// # Model
//
// A request that is admitted at once, without a mark, is not noted and costs nothing here. All others are
// noted, with the limits that decided, until the agent takes the notes every 250 ms. Between two takings there
// is room for [Most] decisions, and for PerTenant decisions of one part of the tenants. So one tenant with many
// refusals leaves room for the others. Marked requests may use half of the room. A decision without room is
// only counted, which costs a fiftieth of a note: above these rates refusals stay cheap, and the agent's memory
// reaches back further.
//
// # Invariants
//
//   - Nothing is noted before an agent takes decisions.
//   - The memory is bounded: Most decisions, whose texts are at most longest bytes each.
package decisions

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/answer"
)

const (
	// Most is the most decisions between two takings, some 500 a second.
	Most = 128
	// PerTenant is the most decisions of one part of the tenants, some 130 a second: the agent remembers
	// decisions of at least the last 16 s.
	PerTenant = Most / 4
	// parts of the tenants, by hash.
	parts = 16
	// longest text of a decision, bytes. A longer one is cut.
	longest = 128
	// mostLimits bounds the limits of one decision; the limit that refused is among them.
	mostLimits = 16
)

// Buffer has the decisions that the agent has not taken. The zero value is empty. Safe for
// concurrent use.
type Buffer struct {
	wanted atomic.Bool // an agent takes decisions
	lost   atomic.Uint64

	all  atomic.Int32        // decisions that have room
	room [parts]atomic.Int32 // of each part

	mu   sync.Mutex
	list []noted
}

type noted struct {
	exchange.Decision
	at int64
}

// Want notes whether the agent takes decisions.
func (b *Buffer) Want(is bool) { b.wanted.Store(is) }

// Lost is the number of decisions that found no room.
func (b *Buffer) Lost() uint64 { return b.lost.Load() }

// Note keeps a decision about the request with this ID, with the engine's present state of its limits. heldBy
// is the limit or pool that the request waited for, "" if it has not waited. The texts of r are not kept.
func (b *Buffer) Note(now int64, id string, r *limiter.Request, out limiter.Outcome, heldBy string, e *limiter.Engine) {
	if !b.wanted.Load() || id == "" || out.Verdict == limiter.Wait {
		return
	}
	if !b.reserve(r.Tenant, out) {
		b.lost.Add(1)
		return
	}
	d := noted{describe(now, id, r, out, e), now}
	d.HeldBy = cut(heldBy)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, d)
}

var seed = maphash.MakeSeed()

// reserve makes room for a decision. It takes no lock: most refusals of a busy tenant find no room.
// Threads that reserve the last places at once get one each.
func (b *Buffer) reserve(tenant string, out limiter.Outcome) bool {
	room, all := int32(PerTenant), int32(Most)
	if out.Verdict == limiter.Admit && !out.Shadow && out.Waited == 0 {
		room, all = room/2, all/2
	}
	part := &b.room[maphash.String(seed, tenant)%parts]
	if b.all.Load() >= all || part.Load() >= room {
		return false
	}
	part.Add(1)
	b.all.Add(1)
	return true
}

// Take returns the decisions since the last Take, nil if there are none.
func (b *Buffer) Take(now int64) *exchange.Decisions {
	b.mu.Lock()
	list := b.list
	b.list = nil
	b.mu.Unlock()
	for i := range b.room {
		b.room[i].Store(0)
	}
	b.all.Store(0)
	if len(list) == 0 || !b.wanted.Load() { // noted for an agent before this one
		return nil
	}
	out := &exchange.Decisions{List: make([]exchange.Decision, len(list))}
	for i, d := range list {
		out.List[i] = d.Decision
		out.List[i].Age = time.Duration(now - d.at)
	}
	return out
}

func describe(now int64, id string, r *limiter.Request, out limiter.Outcome, e *limiter.Engine) exchange.Decision {
	x := e.Bearing(now, r)
	d := exchange.Decision{
		Request: cut(id), Tenant: cut(r.Tenant), Client: cut(r.Client), Pool: cut(r.Pool),
		Cost: float64(r.Micros()) / 1e6, Refused: out.Verdict == limiter.Reject, Marked: out.Mark,
		Shadowed: out.Shadow, Limit: out.Limit, RetryAfter: out.RetryAfter, Waited: out.Waited,
		Revision: x.Revision, Epoch: e.Standing().Shares.Epoch,
	}
	if out.Reason != limiter.None {
		d.Reason = answer.ReasonName(out.Reason)
	}
	d.Limits = make([]exchange.LimitStep, 0, min(len(x.Limits), mostLimits+1))
	for i := range x.Limits {
		if l := &x.Limits[i]; len(d.Limits) < mostLimits || l.Name == out.Limit {
			client := d.Client
			if l.Client != r.Client {
				client = cut(l.Client)
			}
			d.Limits = append(d.Limits, exchange.LimitStep{Name: l.Name, Client: client,
				Shadow: l.Mode == config.Shadow, Passes: l.Passes, Rate: l.Rate, Burst: l.Burst, Free: l.Free,
				Wait: l.Wait, Exact: l.Exact, Silent: l.Silent, Unasked: l.Unasked,
				Concurrency: l.Concurrency, Amount: l.Amount, Parted: l.Parted})
		}
	}
	if f := &x.Flow; f.Pool != "" {
		d.Share = exchange.ShareStep{Known: true, Share: f.Share, Rate: f.Rate, Demand: f.Demand, Credit: f.Credit,
			Waiting: f.Waiting, Lost: f.Lost}
	}
	return d
}

// cut returns a copy of a text that anybody may have chosen, as valid UTF-8.
func cut(s string) string {
	if len(s) > longest {
		s = s[:longest]
	}
	return strings.Clone(strings.ToValidUTF8(s, "?")) // no longer than before
}
