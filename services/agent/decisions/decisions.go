// Package decisions keeps the decisions of an agent's gateways about single requests: refused, held, marked, or let
// pass by SHADOW only. A person who has the ID of such a request can ask why.
//
// # Model
//
// A filter sends its agent such requests each 250 ms, of at most some 500 a second. They are kept in parts, by a hash
// of the tenant; in a full part a new decision takes the place of the oldest. So a tenant with many refusals shortens
// the memory for its own part of the tenants.
//
// # Bounds
//
// At most parts × perPart decisions, some 630 bytes each: 21 MB. Adding is O(1), a question O(decisions).
package decisions

import (
	"cmp"
	"hash/maphash"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

const (
	parts = 16
	// perPart bounds the decisions of a part. More are remembered for longer: of a tenant with 10
	// refusals a second 2,048 are three minutes.
	perPart = 2048
	// mostFound bounds the decisions of an answer. A client may give many requests one ID.
	mostFound = 16
)

// Store is the memory of one agent. The zero value is empty. Not safe for concurrent use; now is
// any time that does not run back.
type Store struct {
	seed  maphash.Seed
	parts [parts]part
}

// part has the latest decisions of some tenants; next is the place of the next one, which is also
// that of the oldest once the part is full.
type part struct {
	list []kept
	next int
}

type kept struct {
	exchange.Decision
	gateway string
	at      time.Duration
}

// Add keeps a gateway's report.
func (s *Store) Add(now time.Duration, gateway string, of *exchange.Decisions) {
	if s.seed == (maphash.Seed{}) {
		s.seed = maphash.MakeSeed()
	}
	for i := range of.List {
		d := kept{of.List[i], gateway, now - min(max(of.List[i].Age, 0), time.Minute)}
		p := &s.parts[maphash.String(s.seed, d.Tenant)%parts]
		if len(p.list) < perPart {
			p.list = append(p.list, d)
		} else {
			p.list[p.next] = d
		}
		p.next = (p.next + 1) % perPart
	}
}

// Answer says what was decided about the requests of an ID, the latest first.
func (s *Store) Answer(now time.Duration, q *controlv1.Question) *controlv1.Answer {
	out := &controlv1.Answer{Id: q.GetId()}
	var found []*kept
	oldest := now
	for i := range s.parts {
		list := s.parts[i].list
		out.Remembered += int64(len(list))
		for j := range list {
			oldest = min(oldest, list[j].at)
			if list[j].Request == q.GetRequest() {
				found = append(found, &list[j])
			}
		}
	}
	if out.GetRemembered() > 0 {
		out.Back = durationpb.New(now - oldest)
	}
	slices.SortStableFunc(found, func(a, b *kept) int { return cmp.Compare(b.at, a.at) })
	for _, d := range found[:min(len(found), mostFound)] {
		out.Decisions = append(out.Decisions, d.message(now))
	}
	return out
}

func (d *kept) message(now time.Duration) *quotav1.Decision {
	m := &quotav1.Decision{
		Request: d.Request, Gateway: d.gateway, Tenant: d.Tenant, Client: d.Client, Pool: d.Pool,
		Ago: durationpb.New(now - d.at), Cost: d.Cost, Refused: d.Refused, Marked: d.Marked, Shadowed: d.Shadowed,
		Reason: d.Reason, Limit: d.Limit, RetryAfter: some(d.RetryAfter), Waited: some(d.Waited),
		HeldBy:   d.HeldBy,
		Revision: d.Revision, Epoch: d.Epoch,
	}
	for _, l := range d.Limits {
		m.Limits = append(m.Limits, &quotav1.LimitStep{Limit: l.Name, Client: l.Client, Shadow: l.Shadow,
			Passes: l.Passes, Rate: l.Rate, Burst: l.Burst, Free: l.Free, Wait: some(l.Wait),
			Exact: l.Exact, Silent: l.Silent, Unasked: l.Unasked, Concurrency: l.Concurrency,
			Amount: l.Amount, Parted: l.Parted})
	}
	if h := &d.Share; h.Known {
		m.Share = &quotav1.ShareStep{Share: h.Share, Rate: h.Rate, Demand: h.Demand, Credit: h.Credit,
			Waiting: int64(h.Waiting), Lost: h.Lost}
	}
	return m
}

// some is a time, nil for none.
func some(d time.Duration) *durationpb.Duration {
	if d <= 0 {
		return nil
	}
	return durationpb.New(d)
}
