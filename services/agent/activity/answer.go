package activity

import (
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/toplist"
)

// Answer answers a question.
func (a *Activity) Answer(now time.Duration, q *controlv1.Question) *controlv1.Answer {
	s := q.GetSelection()
	sum := toplist.Sum{}
	if s.GetBy() == quotav1.Selection_CLIENT {
		a.sumClients(s, sum)
	} else {
		a.sumRows(now, q, sum)
	}
	answer := &controlv1.Answer{Id: q.GetId()}
	answer.Rows, answer.Other = sum.Most(s)
	if a.other != nil && !q.GetSingle() {
		answer.Other = toplist.Plus(answer.Other, a.other.message(now, name{}))
	}
	return answer
}

func (a *Activity) sumRows(now time.Duration, q *controlv1.Question, sum toplist.Sum) {
	s := q.GetSelection()
	for of, r := range a.rows {
		if !selects(s, of) {
			continue
		}
		if m := r.message(now, of); !isEmpty(m) {
			addAs(sum, m, s, q.GetSingle())
		}
	}
}

func (a *Activity) sumClients(s *quotav1.Selection, sum toplist.Sum) {
	for from, g := range a.clients {
		for _, part := range g.parts {
			for i := range part {
				c := &part[i]
				of := name{tenant: c.Tenant, pool: c.Pool, limit: c.Limit, gateway: from}
				if selects(s, of) && (s.GetClient() == "" || s.GetClient() == c.Client) {
					sum.Add(clientMessage(c))
				}
			}
		}
	}
}

// selects reports whether a row may count for a selection. Rows of flows have what the share
// did, so they count for the limit of that name; rows of limits are of no pool.
func selects(s *quotav1.Selection, of name) bool {
	limit := of.limit
	if limit == "" {
		limit = toplist.Share
	}
	is := func(want, have string) bool { return want == "" || want == have }
	return is(s.GetTenant(), of.tenant) && is(s.GetPool(), of.pool) && is(s.GetLimit(), limit) &&
		is(s.GetGateway(), of.gateway)
}

// message is a row as it is told.
func (r *row) message(now time.Duration, of name) *quotav1.Activity {
	c, window := r.lately(now)
	m := &quotav1.Activity{
		Tenant: of.tenant, Pool: of.pool, Limit: of.limit, Gateway: of.gateway,
		Admitted: c.Admitted, Waited: c.Waited, Marked: c.Marked, Shadowed: c.Shadowed, Refused: c.Refused(),
		ClientLimit: c.ClientLimit, TenantShare: c.TenantShare, QueueFull: c.QueueFull, QueueTimeout: c.QueueTimeout,
		LimitWaited: c.LimitWaited, LimitShadowed: c.LimitShadowed, Window: durationpb.New(window),
	}
	if r.limited >= 0 && now-r.limited <= pause {
		m.Since = durationpb.New(now - r.since)
	}
	return m
}

func clientMessage(c *exchange.ClientCount) *quotav1.Activity {
	m := &quotav1.Activity{Tenant: c.Tenant, Pool: c.Pool, Limit: c.Limit, Client: c.Client,
		Window: durationpb.New(2 * time.Minute)}
	n := uint64(math.Round(min(c.Count, 1e18)))
	switch c.Effect {
	case exchange.Refused:
		m.Refused, m.Error = n, uint64(min(c.Error, 1e18))
	case exchange.Shadowed:
		m.Shadowed, m.Error = n, uint64(min(c.Error, 1e18))
	case exchange.Held:
		m.WaitedSeconds = c.Count
	}
	return m
}

func isEmpty(m *quotav1.Activity) bool {
	return m.Admitted+m.Waited+m.Marked+m.Shadowed+m.Refused == 0 && m.WaitedSeconds == 0
}

// addAs adds a row under the names that remain when it is summed. Rows of limits repeat what
// rows of flows have as ClientLimit, so they count only where limits are told apart.
func addAs(sum toplist.Sum, m *quotav1.Activity, s *quotav1.Selection, single bool) {
	apart := s.GetBy() == quotav1.Selection_LIMIT || s.GetLimit() != ""
	switch {
	case single:
		sum.Add(m)
		return
	case apart && m.Limit == "":
		toplist.OfShare(m)
	case !apart && m.Limit != "":
		return
	}
	switch s.GetBy() {
	case quotav1.Selection_LIMIT:
		m.Gateway = ""
	case quotav1.Selection_POOL:
		m.Tenant, m.Limit, m.Gateway = "", "", ""
	case quotav1.Selection_GATEWAY:
		m.Tenant, m.Pool, m.Limit = "", "", ""
	default:
		m.Pool, m.Limit, m.Gateway = "", "", ""
	}
	sum.Add(m)
}
