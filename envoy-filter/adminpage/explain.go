package adminpage

import (
	"cmp"
	"fmt"
	"time"

	"github.com/titrate/titrate/control/limiter"
)

// Explanation lists the limits of one client's requests, at each pool.
type Explanation struct {
	Tenant   string            `json:"tenant"`
	Client   string            `json:"client"`
	Cost     number            `json:"cost"`
	Revision int64             `json:"revision"`
	Error    string            `json:"error,omitempty"` // the question cannot be answered
	Pools    []PoolExplanation `json:"pools"`
}

// PoolExplanation says how a request to one pool would be decided now.
type PoolExplanation struct {
	Pool       string  `json:"pool"`
	CountsFor  string  `json:"countsFor"` // the tenant; "" if none
	Verdict    string  `json:"verdict"`   // admit, wait or reject
	Reason     string  `json:"reason,omitempty"`
	Limit      string  `json:"limit,omitempty"`
	RetryAfter number  `json:"retryAfterSeconds,omitempty"`
	Why        string  `json:"why"`
	Limits     []Limit `json:"limits"`
	Share      *Share  `json:"share,omitempty"`
}

// Limit is the client's state in one limit.
type Limit struct {
	Name   string `json:"name"`
	Client string `json:"client"` // the client as the limit identifies it
	Mode   string `json:"mode"`
	Queued bool   `json:"queued"`
	Strict bool   `json:"strict"`
	Exact  bool   `json:"exact"`
	Counts string `json:"counts,omitempty"` // the name of a cost
	Rate   number `json:"rate"`
	Burst  number `json:"burst"`
	Free   number `json:"free"`
	// Concurrency is the number of requests in flight that the limit allows over all gateways; inFlight are here.
	Concurrency int64   `json:"concurrency,omitempty"`
	InFlight    int     `json:"inFlight,omitempty"`
	Amount      number  `json:"amount,omitempty"` // of a quota's period; free is left
	Passes      bool    `json:"passes"`
	Wait        number  `json:"waitSeconds"`
	Claimed     *Claims `json:"claimed,omitempty"`
}

// Claims are the other gateways' claims, cost units/s.
type Claims struct {
	Others      number `json:"others"`
	Active      number `json:"activeWeight"`
	Unsaturated number `json:"unsaturated"`
	Fair        number `json:"fairPart"`
}

// Share is the tenant's share of the pool.
type Share struct {
	Lease
	Law    string `json:"law"`
	Credit number `json:"credit"`
	Claims Claims `json:"claims"`
}

// maxPools bounds the pools of one page.
const maxPools = 16

func (s *Source) explain(q *query) *Explanation {
	a := &Explanation{Tenant: q.tenant, Client: q.client, Cost: number(q.cost), Pools: []PoolExplanation{}}
	pools := []string{q.pool}
	if q.pool == "" {
		pools = s.Engine.Pools()
		pools = pools[:min(len(pools), maxPools)]
	}
	if len(pools) == 0 {
		pools = []string{""}
	}
	now, names := s.Now(), s.Names()
	for _, pool := range pools {
		r, err := q.request(pool, names)
		if err != nil {
			a.Error = err.Error()
			return a
		}
		x := s.Engine.Explain(now, r)
		a.Revision = x.Revision
		a.Pools = append(a.Pools, poolExplanation(pool, q.cost, &x))
	}
	return a
}

func poolExplanation(pool string, cost float64, x *limiter.Explanation) PoolExplanation {
	out := PoolExplanation{
		Pool: pool, CountsFor: x.Tenant, Verdict: x.Outcome.Verdict.String(), Reason: x.Outcome.Reason.String(),
		Limit: x.Outcome.Limit, RetryAfter: number(x.Outcome.RetryAfter.Seconds()), Limits: []Limit{},
	}
	for i := range x.Limits {
		out.Limits = append(out.Limits, limit(&x.Limits[i]))
	}
	if f := &x.Flow; f.Pool != "" {
		out.Share = &Share{Lease: lease(f), Law: f.Law.String(), Credit: number(f.Credit), Claims: *claims(&f.Claimed)}
	}
	out.Why = why(&out, cost)
	return out
}

func limit(l *limiter.LimitState) Limit {
	return Limit{
		Name: l.Name, Client: l.Client, Mode: l.Mode.String(), Queued: l.Queued, Strict: l.Strict, Exact: l.Exact,
		Rate: number(l.Rate), Burst: number(l.Burst), Free: number(l.Free), Passes: l.Passes,
		Wait: number(l.Wait.Seconds()), Claimed: claims(l.Claimed), Counts: l.Counts, Concurrency: l.Concurrency,
		InFlight: l.InFlight, Amount: number(l.Amount),
	}
}

func claims(c *limiter.Claimed) *Claims {
	if c == nil {
		return nil
	}
	return &Claims{number(c.Others), number(c.Active), number(c.Unsaturated), number(c.Fair)}
}

// why is the verdict as a sentence.
func why(p *PoolExplanation, cost float64) string {
	switch {
	case p.Reason == limiter.NotConfigured.String():
		return "refused: no configuration has arrived, and boot_policy is CLOSED"
	case p.Reason == limiter.UnknownTenant.String():
		return "refused: no such tenant, and none to stand in"
	case p.CountsFor == "":
		return "admitted without a look: no configuration yet, or unknown tenants pass"
	case p.Verdict == limiter.Admit.String():
		return "admitted: every limit and the share have room"
	}
	act := map[string]string{limiter.Wait.String(): "held", limiter.Reject.String(): "refused"}[p.Verdict]
	for _, l := range p.Limits {
		if l.Name == p.Limit && l.Concurrency > 0 {
			return act + fmt.Sprintf(" by limit %q: %d requests may be in flight over all gateways, %d are here, "+
				"and no slot is idle", l.Name, l.Concurrency, l.InFlight)
		}
		if l.Name == p.Limit && l.Amount > 0 {
			return act + fmt.Sprintf(" by limit %q: %s of the quota of %s is left over all gateways, as far as is "+
				"known here; come again %s", l.Name, show(l.Free), show(l.Amount), in(float64(l.Wait)))
		}
		if l.Name == p.Limit {
			const text = " by limit %q: %s free of a burst of %s, refilled at %s/s over all gateways; %s passes %s"
			return act + fmt.Sprintf(text,
				l.Name, show(max(l.Free, 0)), show(l.Burst), show(l.Rate), show(number(cost)), in(float64(l.Wait)))
		}
	}
	if p.Share != nil {
		const text = " for the tenant's share: " +
			"%s/s are granted over all gateways, %s/s are in force here, %d wait; %s passes %s"
		return act + fmt.Sprintf(text,
			show(p.Share.Share), show(p.Share.Rate), p.Share.Waiting, show(number(cost)), in(float64(p.RetryAfter)))
	}
	return act
}

func in(seconds float64) string {
	if seconds <= 0 {
		return "later, when is not known"
	}
	return "in " + time.Duration(seconds*1e9).Round(time.Millisecond).String()
}

func (a *Explanation) text(w *writer) {
	w.line("tenant %q, client %q, cost %s; configuration %s; all as of now", a.Tenant, a.Client, show(a.Cost),
		revision(a.Revision))
	if a.Error != "" {
		w.line("%s", a.Error)
	}
	for _, p := range a.Pools {
		w.line("")
		w.line("pool %q: %s", p.Pool, p.Why)
		if p.CountsFor != "" && p.CountsFor != a.Tenant {
			w.line("counts for tenant %q", p.CountsFor)
		}
		rows := [][]string{{"LIMIT", "CLIENT", "COUNTS", "RATE/s", "BURST", "FREE", "PASSES", "OTHERS/s", "FAIR PART",
			"MODE"}}
		for _, l := range p.Limits {
			rows = append(rows, l.row())
		}
		w.table(rows)
		if s := p.Share; s != nil {
			w.table([][]string{
				{"SHARE/s", "HERE/s", "CREDIT", "DEMAND/s", "WAITING", "HELD", "OTHERS/s", "FAIR PART", "LAW", "MODE"},
				{show(s.Share), show(s.Rate), show(s.Credit), show(s.Demand), fmt.Sprint(s.Waiting), fmt.Sprint(s.Held),
					show(s.Claims.Others), show(s.Claims.Fair), s.Law, s.Mode},
			})
		}
	}
}

func (l *Limit) row() []string {
	others, fair, passes := "-", "-", "now"
	if l.Claimed != nil {
		others, fair = show(l.Claimed.Others), show(l.Claimed.Fair)
	}
	if !l.Passes {
		passes = in(float64(l.Wait))
	}
	if l.Concurrency > 0 {
		return []string{quote(l.Name), quote(l.Client), "in flight", "-", fmt.Sprint(l.Concurrency), show(l.Free),
			passes, "-", "-", l.Mode}
	}
	if l.Amount > 0 {
		return []string{quote(l.Name), quote(l.Client), cmp.Or(l.Counts, "quota"), "-", show(l.Amount), show(l.Free),
			passes, "-", "-", l.Mode}
	}
	return []string{
		quote(l.Name), quote(l.Client), cmp.Or(l.Counts, "-"), show(l.Rate), show(l.Burst), show(l.Free), passes,
		others, fair, l.Mode,
	}
}
