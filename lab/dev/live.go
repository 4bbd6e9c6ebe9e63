package dev

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/lab/dev/scenario"
	"github.com/titrate/titrate/lab/dev/trace"
	"github.com/titrate/titrate/lab/dev/view"
	"github.com/titrate/titrate/lab/judge"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// live gathers the figures of the view: counts of the load's records over the last interval, and the
// coordinator's figures once a second.
type live struct {
	installation *Installation
	start        time.Time

	mu       sync.Mutex
	tenants  map[string]*counts
	clients  map[string]*counts
	gateways map[string]*counts
	since    time.Time
	last     *view.Sample // rates of the last whole interval
	failed   int
	late     float64
	notes    []view.Note
	pool     *quotav1.PoolStatus
	why      map[string]*quotav1.Explanation // by tenant; nil = the coordinator is away
}

// counts of an interval.
type counts struct {
	wants, gets, rejects, marks float64
	waits                       []float64
}

// interval is the time over which rates are averaged.
const interval = time.Second

func newLive(w *Installation, start time.Time) *live {
	l := &live{installation: w, start: start}
	l.reset(start)
	l.last = &view.Sample{}
	return l
}

func (l *live) reset(now time.Time) {
	l.tenants, l.clients, l.gateways = map[string]*counts{}, map[string]*counts{}, map[string]*counts{}
	l.since, l.late = now, 0
}

// observe counts a record; called from many goroutines.
func (l *live) observe(r *trace.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, in := range []struct {
		of  map[string]*counts
		key string
	}{{l.tenants, r.Tenant}, {l.clients, r.Client}, {l.gateways, r.Gateway}} {
		c := in.of[in.key]
		if c == nil {
			c = &counts{}
			in.of[in.key] = c
		}
		c.add(r)
	}
	if r.Failed() {
		l.failed++
	}
	l.late = max(l.late, r.Late*1e3)
}

func (c *counts) add(r *trace.Record) {
	c.wants++
	if r.Admitted() {
		c.gets++
		c.waits = append(c.waits, r.WaitMs)
	}
	if r.Status == 429 {
		c.rejects++
	}
	if r.Mark {
		c.marks++
	}
}

// note records something that was done.
func (l *live) note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notes = append(l.notes, view.Note{At: time.Since(l.start), Text: text})
}

// poll asks the coordinator once a second until ctx ends.
func (l *live) poll(ctx context.Context) {
	conn, err := l.installation.Dial()
	if err != nil {
		return
	}
	defer conn.Close()
	client := quotav1.NewQuotaServiceClient(conn)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		pool, why := l.ask(ctx, client)
		l.mu.Lock()
		l.pool, l.why = pool, why
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// ask is nil, nil when the coordinator does not answer at once.
func (l *live) ask(ctx context.Context,
	c quotav1.QuotaServiceClient) (*quotav1.PoolStatus, map[string]*quotav1.Explanation) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	s := l.installation.scenario
	pool, err := c.GetPool(ctx, &quotav1.GetPoolRequest{Name: "pools/" + s.Pool.Name})
	if err != nil {
		return nil, nil
	}
	why := map[string]*quotav1.Explanation{}
	for _, t := range s.Tenants {
		r, err := c.Why(ctx, &quotav1.WhyRequest{Tenant: "tenants/" + t.Name, Pool: "pools/" + s.Pool.Name})
		if err == nil && len(r.GetExplanations()) > 0 {
			why[t.Name] = r.GetExplanations()[0]
		}
	}
	return pool.GetStatus(), why
}

// sample is the view's source.
func (l *live) sample() *view.Sample {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.since) >= interval {
		l.last = l.rates(now.Sub(l.since).Seconds())
		l.reset(now)
	}
	s := *l.last
	l.describe(&s, now)
	return &s
}

// rates turns the counts of an interval into rates.
func (l *live) rates(seconds float64) *view.Sample {
	out := &view.Sample{LateMs: l.late, Pool: view.Pool{Capacity: l.installation.scenario.Pool.Capacity}}
	for _, t := range l.installation.scenario.Tenants {
		c := l.tenants[t.Name].per(seconds)
		out.Pool.Wants += c.wants
		out.Pool.Gets += c.gets
		out.Tenants = append(out.Tenants, view.Tenant{Name: t.Name, Weight: t.Weight,
			Wants: c.wants, Gets: c.gets, Rejects: c.rejects, Marks: c.marks, WaitMs: judge.Quantile(c.waits, .99)})
		for _, k := range t.Clients {
			if k.Limit != nil {
				c := l.clients[k.Name].per(seconds)
				out.Clients = append(out.Clients, view.Client{Name: k.Name, Rate: k.Limit.Rate, Burst: k.Limit.Burst,
					Exact: k.Limit.Exact, Wants: c.wants, Gets: c.gets, Rejects: c.rejects})
			}
		}
	}
	for _, g := range l.installation.scenario.Gateways {
		c := l.gateways[g.Name].per(seconds)
		out.Gateways = append(out.Gateways, view.Gateway{Name: g.Name, Wants: c.wants, Gets: c.gets,
			Rejects: c.rejects})
	}
	return out
}

func (c *counts) per(seconds float64) counts {
	if c == nil {
		return counts{}
	}
	return counts{c.wants / seconds, c.gets / seconds, c.rejects / seconds, c.marks / seconds, c.waits}
}

// describe adds the texts and figures that are not rates.
func (l *live) describe(s *view.Sample, now time.Time) {
	sc := l.installation.scenario
	s.Elapsed = now.Sub(l.start)
	s.Total = time.Duration(sc.Duration() * float64(time.Second))
	index := sc.PhaseAt(s.Elapsed.Seconds())
	phase := sc.Phases[index]
	s.Phase = phase.Name
	s.PhaseLeft = max(0, time.Duration(phase.End*float64(time.Second))-s.Elapsed)
	s.Failed = l.failed
	s.Notes = slices.Clone(l.notes)
	s.Pool.Capacity = sc.Pool.Capacity
	s.Pool.Price, s.Pool.Known = l.pool.GetPrice(), l.pool != nil
	fair := plannedShares(sc, index)
	s.Tenants = slices.Clone(s.Tenants)
	for i := range s.Tenants {
		t := &s.Tenants[i]
		t.FairShare = fair[i]
		t.State = tenantState(l.why, t.Name)
	}
	for i := len(s.Tenants) - 1; i >= 0; i-- {
		if sc.Tenants[i].Rate(index) == 0 { // it asks in another phase
			s.Tenants = slices.Delete(s.Tenants, i, i+1)
		}
	}
	s.Clients = slices.DeleteFunc(slices.Clone(s.Clients), func(c view.Client) bool {
		return sc.Client(c.Name).Rates[index] == 0 // it asks in another phase
	})
	s.Gateways = slices.Clone(s.Gateways)
	for i := range s.Gateways {
		s.Gateways[i].State = "connected"
		if l.installation.CutOff(s.Gateways[i].Name) {
			s.Gateways[i].State = "agent cut off"
		}
	}
}

// tenantState describes in at most view.StateWidth characters what bounds a tenant's share.
func tenantState(why map[string]*quotav1.Explanation, tenant string) string {
	e := why[tenant]
	switch {
	case why == nil:
		return "kept, coordinator away"
	case e == nil:
		return "unknown"
	case e.GetStale():
		return "share frozen"
	}
	switch e.GetBoundBy() {
	case quotav1.Bound_DEMAND:
		return "gets all it wants"
	case quotav1.Bound_GUARANTEED:
		return "held at its guarantee"
	case quotav1.Bound_MAX:
		return "held at its max"
	case quotav1.Bound_POOL:
		return "held at its fair share"
	}
	return "no share yet"
}

// plannedShares are the fair shares of a phase's mean rates, per tenant.
func plannedShares(s *scenario.Scenario, phase int) []float64 {
	demands := make([]fairshare.Demand, len(s.Tenants))
	for i, t := range s.Tenants {
		demands[i].Weight = t.Weight
		for _, c := range t.Clients {
			rate := c.Rates[phase]
			if c.Limit != nil {
				rate = math.Min(rate, c.Limit.Rate)
			}
			demands[i].Cap += rate
		}
		demands[i].Guaranteed = t.Sure(demands[i].Cap)
	}
	shares := make([]float64, len(demands))
	fairshare.Fill(s.Pool.Capacity, demands, fairshare.Minimum, 0, shares)
	return shares
}
