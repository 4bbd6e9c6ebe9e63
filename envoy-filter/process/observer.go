package process

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/adminpage"
	"github.com/titrate/titrate/envoy-filter/enforcer"
	"github.com/titrate/titrate/envoy-filter/heavyhitters"
	"github.com/titrate/titrate/envoy-filter/stats"
	"github.com/titrate/titrate/proto/link"
)

// observer counts the clients that are refused, held and shadowed the most, by limit.
type observer struct {
	waits   *stats.Waits
	clients [exchange.Effects]heavyhitters.Sketch // Held in seconds, the others in requests
}

// Refused implements enforcer.Observer.
func (o *observer) Refused(now int64, r *limiter.Request, limit string) {
	o.clients[exchange.Refused].Add(now, nameOf(r, limit), 1)
}

// Shadowed implements enforcer.Observer.
func (o *observer) Shadowed(now int64, r *limiter.Request, limit string) {
	o.clients[exchange.Shadowed].Add(now, nameOf(r, limit), 1)
}

func nameOf(r *limiter.Request, limit string) heavyhitters.Name {
	return heavyhitters.Name{Tenant: r.Tenant, Client: r.Client, Pool: r.Pool, Limit: limit}
}

// Ended implements enforcer.Observer.
func (o *observer) Ended(now int64, events []limiter.Event) {
	o.waits.Add(events)
	for i := range events {
		e := &events[i]
		name := heavyhitters.Name{Tenant: e.Tenant, Client: e.Client, Pool: e.Pool, Limit: e.HeldBy}
		o.clients[exchange.Held].Add(now, name, e.Outcome.Waited.Seconds())
		name.Limit = cmp.Or(e.Outcome.Limit, e.HeldBy)
		switch {
		case e.Outcome.Verdict == limiter.Reject:
			o.clients[exchange.Refused].Add(now, name, 1)
		case e.Outcome.Shadow:
			o.clients[exchange.Shadowed].Add(now, name, 1)
		}
	}
}

// Note keeps the decision about the request with this ID, and the limit or pool that it has waited for, for the
// agent.
func (p *Process) Note(id string, r *limiter.Request, out limiter.Outcome, heldBy string) {
	p.decisions.Note(enforcer.Now(), id, r, out, heldBy, p.engine)
}

// clientParts is the number of parts in which counts of clients are sent to the agent.
const clientParts = int(exchange.Effects) * heavyhitters.Parts

// An agent takes no more.
var (
	_ [exchange.MaxClientParts - clientParts]struct{}
	_ [exchange.MaxPartClients - heavyhitters.PerPart]struct{}
)

// report adds one part of the clients to a report.
func (o *observer) report(now int64, part int, r *exchange.Report) {
	effect := part / heavyhitters.Parts
	r.Part, r.Parts, r.Clients = uint8(part), uint8(clientParts), nil
	for _, e := range o.clients[effect].Part(now, part%heavyhitters.Parts) {
		r.Clients = append(r.Clients, exchange.ClientCount{Tenant: e.Tenant, Pool: e.Pool, Limit: e.Limit,
			Client: e.Client, Effect: exchange.Effect(effect), Count: e.Count, Error: e.Error})
	}
}

// alarm warns, at most once a minute, of keys beyond the budget of contended keys.
type alarm struct {
	parted uint64 // as of the last warning
	at     int64
}

// check returns a warning if one is due.
func (a *alarm) check(parted uint64, now int64) string {
	if parted == a.parted || a.at > 0 && now-a.at < int64(time.Minute) {
		return ""
	}
	added := parted - a.parted
	a.parted, a.at = parted, now
	return fmt.Sprintf("titrate: %d requests more of keys beyond the budget of contended keys; each gateway limits "+
		"such a key to its part of the limit (rate/N, burst/N). Either clients invent names, or this gateway has "+
		"more busy clients than contended_keys of its bootstrap configuration", added)
}

// Page answers a request for the admin page: an HTTP status and a body.
func (p *Process) Page(path string) (status int, body []byte) {
	status, body = http.StatusInternalServerError, []byte("titrate: recovered a panic, see the log\n")
	defer p.Enforcer.RecoverPanic("the page")
	return p.page.Answer(path)
}

func (p *Process) newPage() *adminpage.Source {
	return &adminpage.Source{
		Engine: p.engine, Refused: &p.observer.clients[exchange.Refused], Held: &p.observer.clients[exchange.Held],
		Replica: p.o.Settings.Replica, Started: time.Now(), Now: enforcer.Now, Names: p.o.Slots.Names,
		Panics: p.Enforcer.Panics,
		Link: func() adminpage.Link {
			s := &p.link.Status
			l := adminpage.Link{
				Connected: s.Connected.Load(), Sessions: s.Sessions.Load(), Malformed: s.Malformed.Load(),
			}
			l.RefusedRevision, l.RefusedReason = p.link.Refusal()
			l.LimitsLeftOut, l.LeftOut = leftOut(p.link.LeftOutLimits())
			return l
		},
	}
}

// mostLeftOut bounds the list on the page.
const mostLeftOut = 20

func leftOut(r *link.Refused) (total int64, lines []string) {
	if r == nil {
		return 0, nil
	}
	for _, l := range r.Limits[:min(len(r.Limits), mostLeftOut)] {
		lines = append(lines, fmt.Sprintf("tenant %q, limit %q: %s", l.Tenant, l.Limit, l.Reason))
	}
	return int64(r.Total), lines
}
