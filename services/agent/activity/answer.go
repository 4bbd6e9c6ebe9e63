package activity

import (
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/toplist"
)

// Snapshot has the data of an answer, apart from the activity.
type Snapshot struct {
	question *controlv1.Question
	site     string // of the agent
	rows     []lately
	clients  [][]exchange.ClientCount // parts, which are not changed
	gateways []string                 // of clients
	other    *lately
}

// lately has the counts of a row in about the last minute.
type lately struct {
	name
	counts exchange.Counts
	parts  []exchange.Counts // of it by bucket, the newest last
	newest time.Duration     // how long the newest bucket has lasted
	window time.Duration
	since  time.Duration // of the episode; below 0: nothing is limited
}

// Snapshot copies what the answer to a question needs: O(rows). What takes longer, summing and
// sorting, is done by its Answer, which needs nothing of a.
func (a *Activity) Snapshot(now time.Duration, q *controlv1.Question) *Snapshot {
	out := &Snapshot{question: q, site: a.site}
	s := q.GetSelection()
	if !selectsText(s.GetSite(), a.site) {
		return out
	}
	if s.GetBy() == quotav1.Selection_CLIENT {
		for from, g := range a.clients {
			if selectsText(s.GetGateway(), from) {
				for _, part := range g.parts {
					out.clients, out.gateways = append(out.clients, part), append(out.gateways, from)
				}
			}
		}
	} else {
		out.rows = make([]lately, 0, len(a.rows))
		for of, r := range a.rows {
			if r.counted+past*bucket+bucket > now && selects(s, of) {
				out.rows = append(out.rows, r.snapshot(now, of))
			}
		}
	}
	if a.other != nil && !q.GetSingle() {
		other := a.other.snapshot(now, name{})
		out.other = &other
	}
	return out
}

func (r *row) snapshot(now time.Duration, of name) lately {
	l := lately{name: of, since: -1}
	l.counts, l.window = r.lately(now)
	l.parts, l.newest = r.parts(), now-time.Duration(r.latest)*bucket
	if r.limited >= 0 && now-r.limited <= pause {
		l.since = now - r.since
	}
	return l
}

// Answer answers the question.
func (s *Snapshot) Answer() *controlv1.Answer {
	sum, of := toplist.Sum{}, s.question.GetSelection()
	for i := range s.rows {
		if l := &s.rows[i]; l.counts != (exchange.Counts{}) {
			m := l.message()
			m.Site = s.site
			addAs(sum, m, of, s.question.GetSingle())
		}
	}
	for i, part := range s.clients {
		addClients(sum, of, s.gateways[i], part)
	}
	answer := &controlv1.Answer{Id: s.question.GetId()}
	answer.Rows, answer.Other = sum.Most(of)
	if s.other != nil {
		answer.Other = toplist.Plus(answer.Other, s.other.message())
	}
	return answer
}

func addClients(sum toplist.Sum, s *quotav1.Selection, from string, part []exchange.ClientCount) {
	for i := range part {
		c := &part[i]
		of := name{tenant: c.Tenant, pool: c.Pool, limit: c.Limit, gateway: from}
		if selects(s, of) && selectsText(s.GetClient(), c.Client) {
			sum.Add(clientMessage(c))
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
	return selectsText(s.GetTenant(), of.tenant) && selectsText(s.GetPool(), of.pool) &&
		selectsText(s.GetLimit(), limit) && selectsText(s.GetGateway(), of.gateway)
}

func selectsText(want, have string) bool { return want == "" || want == have }

// message is a row as it is sent.
func (l *lately) message() *quotav1.Activity {
	c := &l.counts
	m := &quotav1.Activity{
		Tenant: l.tenant, Pool: l.pool, Limit: l.limit, Gateway: l.gateway,
		Admitted: c.Admitted, Waited: c.Waited, Marked: c.Marked, Shadowed: c.Shadowed, Refused: c.Refused(),
		ClientLimit: c.ClientLimit, TenantShare: c.TenantShare, QueueFull: c.QueueFull, QueueTimeout: c.QueueTimeout,
		LimitWaited: c.LimitWaited, LimitShadowed: c.LimitShadowed, Window: durationpb.New(l.window),
		OwnerWaited: c.OwnerWaited, OwnerWaitedSeconds: float64(c.OwnerMicros) / 1e6, OwnerSilent: c.OwnerSilent,
		OwnerUnasked: c.OwnerUnasked,
	}
	m.NewestPart = durationpb.New(l.newest)
	for i := range l.parts {
		m.AdmittedParts = append(m.AdmittedParts, l.parts[i].Admitted)
		m.RefusedParts = append(m.RefusedParts, l.parts[i].Refused())
	}
	if l.since >= 0 {
		m.Since = durationpb.New(l.since)
	}
	return m
}

// clientMessage is a client as it is sent: names may have any bytes, a message has UTF-8.
func clientMessage(c *exchange.ClientCount) *quotav1.Activity {
	text := func(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
	m := &quotav1.Activity{Tenant: text(c.Tenant), Pool: text(c.Pool), Limit: c.Limit, Client: text(c.Client),
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

// addAs adds a row under the names that remain when it is summed. Rows of limits repeat what
// rows of flows have as ClientLimit, so they count only where limits are distinguished.
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
	if by := s.GetBy(); by != quotav1.Selection_GATEWAY && by != quotav1.Selection_SITE {
		m.Gateway, m.Site = "", ""
	}
	switch s.GetBy() {
	case quotav1.Selection_LIMIT:
	case quotav1.Selection_POOL:
		m.Tenant, m.Limit = "", ""
	case quotav1.Selection_GATEWAY:
		m.Tenant, m.Pool, m.Limit = "", "", ""
	case quotav1.Selection_SITE:
		m.Tenant, m.Pool, m.Limit, m.Gateway = "", "", "", ""
	default:
		m.Pool, m.Limit = "", ""
	}
	sum.Add(m)
}
