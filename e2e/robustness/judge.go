package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/titrate/titrate/e2e/robustness/calls"
	"github.com/titrate/titrate/e2e/robustness/check"
	"github.com/titrate/titrate/e2e/robustness/load"
	"github.com/titrate/titrate/e2e/robustness/world"
	"github.com/titrate/titrate/lab/judge"
)

// Result of a run.
type Result struct {
	Seed     uint64          `json:"seed"`
	Seconds  float64         `json:"seconds"` // in which faults were done
	Only     string          `json:"only,omitempty"`
	Version  string          `json:"version"` // of titrate
	Pass     bool            `json:"pass"`
	Void     string          `json:"void,omitempty"`  // why nothing can be said; it has not passed then
	Error    string          `json:"error,omitempty"` // there is no verdict
	Faults   []check.Fault   `json:"faults"`
	Checks   []Check         `json:"checks"`
	Findings []check.Finding `json:"findings,omitempty"`
	Requests Requests        `json:"requests"`
	Changes  calls.Counter   `json:"changes"`
	Recovery recovery        `json:"recovery"`
	Quiet    float64         `json:"quiet"`   // s in which entitlements were judged
	Stalled  float64         `json:"stalled"` // s in which the machine stood still
	Cores    float64         `json:"cores"`   // used on average
	Logs     string          `json:"-"`
}

// Requests are the numbers of sent requests, by outcome.
type Requests struct {
	Sent, Admitted, Refused, Excused int
}

// Check is a figure and its bound.
type Check struct {
	Name    string  `json:"name"`
	Subject string  `json:"subject,omitempty"`
	Figure  float64 `json:"figure"`
	Bound   float64 `json:"bound"`
	Unit    string  `json:"unit,omitempty"`
	Pass    bool    `json:"pass"`
	hard    bool    // also on a machine that is too slow
}

// answeredWithin bounds the wait of any request: the pool's maxWait of 1 s, and
// what a loaded machine takes.
const answeredWithin = 4 * time.Second

// shortest quiet span that is judged.
const shortest = 5 * time.Second

// seen are the judged figures besides the requests.
type seen struct {
	*disturbance
	*watcher
	stalls []check.Span
	end    time.Duration // of the load
	again  recovery
	crowd  int
}

// judge fills the result in.
func (s *scene) judge(ctx context.Context, r *Result, all *seen) {
	records := s.load.Records()
	r.Faults, r.Recovery, r.Changes = all.disturbance.known(), all.again, s.api.Counted()
	r.Findings = slices.Concat(all.disturbance.findings, all.watcher.findings, s.deaths())
	r.Stalled = check.Stalled(check.Span{To: all.end}, all.stalls).Seconds()
	r.answered(records, all.stalls)
	r.admitted(records, all.stalls, all.watcher.delay(r.Faults), s.world.Sites())
	r.inFlight(s.load.Stays("flies"))
	r.quotas(s.quotas, records)
	r.daily(s.quotas, s.turn, records)
	r.entitled(records, check.Quiet(r.Faults, settled, all.end, shortest), all.stalls)
	r.spared(records, check.Quiet(check.Unsparing(r.Faults), settled, all.end, shortest))
	r.asNew(all.again)
	r.found("fault")
	soft := len(r.Checks)
	r.changes(ctx, s.api)
	r.atMost("held after the load", "", s.held(ctx), 0, "")
	r.leaks(all.watcher.usages, all.crowd)
	for _, name := range []string{"epochs", "panics", "deaths"} {
		r.found(name)
	}
	for i := range r.Checks[soft:] {
		r.Checks[soft+i].hard = true
	}
	r.Cores = cores(s.load.Now())
	r.conclude(all.end, all.stalls)
}

// found judges that there is no finding of a name.
func (r *Result) found(name string) {
	n := 0
	for _, f := range r.Findings {
		if f.Check == name {
			n++
		}
	}
	r.atMost(name, "", float64(n), 0, "")
}

// mostStalled is the part of a run that the machine may stand still for. Runs of five minutes whose figures the
// machine has not affected had up to 4 %; runs that failed only because of the machine had 11 % and more.
const mostStalled = .05

// A finding proves nothing if the machine has stood still for so long in the time before it: held requests, late
// packets and expired leases follow from that.
const (
	stoodStill = 500 * time.Millisecond
	justBefore = 15 * time.Second
)

// conclude passes a run, fails it or makes it void: too slow a machine excuses what depends
// on time, and no loss, leak, panic or death.
func (r *Result) conclude(lasted time.Duration, stalls []check.Span) {
	failed := func(hard bool) bool {
		return slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.Pass && (c.hard || !hard) })
	}
	sound := func(f check.Finding) bool {
		return check.Stalled(check.Span{From: f.At - justBefore, To: f.At}, stalls) < stoodStill
	}
	switch part := r.Stalled / lasted.Seconds(); {
	case failed(true):
	case part > mostStalled:
		r.Void = fmt.Sprintf("the machine stood still for %.0f %% of the time, at most %.0f %% may be: "+
			"it was too busy, run fewer at once", 100*part, 100*mostStalled)
	case failed(false) && len(r.Findings) > 0 && !slices.ContainsFunc(r.Findings, sound):
		r.Void = fmt.Sprintf("the machine stood still for %v or longer in the %v before each finding: it was too busy",
			stoodStill, justBefore)
	}
	r.Pass = r.Void == "" && r.Requests.Admitted > 0 && !failed(false)
}

// answered judges that every request is, and in time.
func (r *Result) answered(records []load.Record, stalls []check.Span) {
	failed := check.Failed(records, r.Faults)
	blocked := check.Blocked(records, r.Faults, stalls, answeredWithin)
	r.count(records)
	r.Requests.Excused -= len(failed)
	r.Findings = slices.Concat(r.Findings, some(failed), some(blocked))
	r.atMost("failed requests", "", float64(len(failed)), 0, "")
	r.atMost("blocked requests", "", float64(len(blocked)), 0, "")
}

// asNew judges what came after the last fault.
func (r *Result) asNew(again recovery) {
	r.atMost("as new after the last fault", "", again.Took.Seconds(), asNewWithin.Seconds(), "s")
	if again.Missing != "" {
		r.Findings = append(r.Findings, check.Finding{Check: "as new", At: again.From + again.Took,
			What: again.Missing})
	}
}

// settled is the time after which the load's beginning has settled.
const settled = 8 * time.Second

func (r *Result) atMost(name, subject string, figure, bound float64, unit string) {
	r.Checks = append(r.Checks, Check{Name: name, Subject: subject, Figure: figure, Bound: bound, Unit: unit,
		Pass: figure <= bound})
}

func (r *Result) count(records []load.Record) {
	r.Requests.Sent = len(records)
	for i := range records {
		switch {
		case records[i].Err != "":
			r.Requests.Excused++ // those without an excuse are taken off
		case records[i].Status == 429:
			r.Requests.Refused++
		default:
			r.Requests.Admitted++
		}
	}
}

// admitted judges each limit and the pool over all gateways, at all times.
func (r *Result) admitted(records []load.Record, stalls []check.Span, delay time.Duration, sites int) {
	most := world.Gateways
	longest := time.Duration(0)
	for i := range r.Faults {
		longest = max(longest, r.Faults[i].Grace.Delay)
		if r.Faults[i].Kind == "add-gateway" {
			most = world.Gateways + 1
		}
	}
	lag := judge.Lag(most, delay+longest, false)
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		of, faults := func(c *load.Client) bool { return c.Name == name }, r.Faults
		if slices.ContainsFunc(clients, func(c load.Client) bool { return of(&c) && spared(&c) }) {
			faults = check.Unsparing(faults)
		}
		bound := limits[name].over(sites, limits[name].bound(most, lag, delay), lag, delay)
		x := check.Admitted(arrivals(records, of), bound, faults, stalls)
		r.excess("limit, excess", name, x)
	}
	x := check.Admitted(arrivals(records, func(c *load.Client) bool { return c.Pool == "" }), poolBound(), r.Faults,
		stalls)
	r.excess("pool, excess", "api", x)
}

// inFlight judges the limit on requests in flight.
func (r *Result) inFlight(stays []load.Stay) {
	most, found := check.InFlight(stays, inFlight, r.Faults)
	r.Findings = slices.Concat(r.Findings, some(found))
	r.Checks = append(r.Checks, Check{Name: "in flight, most", Subject: "flies", Figure: float64(most), Bound: inFlight,
		Unit: "requests", Pass: len(found) == 0 && most > 0})
}

// bound returns the bound of a limit on so many gateways, whose claims take a lag and whose packets a way at
// most. A limit that is stated EXACT is bound by one token bucket while the owner of the key can be reached. Otherwise
// ledgers decide, as for a LOCAL limit that begins cold, and a gateway that had the bucket alone may admit a
// burst more. Agents are near here, so that limits without a precision are EXACT, too, but for those with a queue.
func (l limit) bound(gateways int, lag, way time.Duration) check.Bound {
	limit := judge.Limit{Rate: l.rate, Burst: l.burst, Strict: l.strict}
	slack, cold := limit.Slack(gateways, lag)
	b := check.Bound{Rate: l.rate, Burst: l.burst, Slack: slack, Cold: cold, Sides: !l.queue}
	if l.exact {
		b.Slack, b.Cold, b.Ledgers = limit.ExactSlack(way), 0, slack+cold+l.burst
	}
	return b
}

// lossLag is the additional time of a claim between sites while packets are lost.
const lossLag = 250 * time.Millisecond

// over returns the bound of a limit over so many sites, from the bound within one site. Each other site may admit a
// burst more, and what it admits before it knows of the others (docs/how-to/two-regions.md). A limit of the scope
// GLOBAL has one owner over all sites: only ledgers may admit that.
func (l limit) over(sites int, b check.Bound, lag, way time.Duration) check.Bound {
	more := float64(sites-1) * (l.burst + l.rate*(lag+lossLag).Seconds())
	switch {
	case sites == 1:
	case l.global:
		far := way + world.Far.Delay + world.Far.Jitter + lossLag
		b.Slack, b.Ledgers = judge.Limit{Rate: l.rate, Burst: l.burst}.ExactSlack(far), b.Ledgers+more
	default:
		b.Slack += more
	}
	return b
}

func (r *Result) excess(name, subject string, x check.Excess) {
	r.Checks = append(r.Checks, Check{Name: name, Subject: subject, Figure: x.Level, Bound: x.Most, Unit: "requests",
		Pass: x.Beyond <= 0})
	if x.Beyond > 0 {
		r.Findings = append(r.Findings, check.Finding{Check: name, At: x.At,
			What: fmt.Sprintf("%s: %.1f requests beyond rate·t, at most %.1f are allowed", subject, x.Level, x.Most)})
	}
}

var pool = judge.Pool{Capacity: capacity}

// poolBound is the bound of the demo's verdict for a pool. In addition it has the floor φ = 1/4 of the part
// of a gateway that has joined, until the gateway is in the shares.
func poolBound() check.Bound {
	saved := pool.Saved(len(tenants) * world.Gateways)
	floor := .25 * capacity / world.Gateways * joins.Seconds()
	return check.Bound{Rate: pool.Mean(), Burst: saved, Slack: pool.Swing() + pool.ColdStart() + floor, Cold: saved,
		Frozen: pool.Frozen()}
}

// joins is the time after which a gateway that has joined is in the shares: a new leader collects agents'
// reports for that long first (--settle).
const joins = 2 * time.Second

func arrivals(records []load.Record, of func(*load.Client) bool) (all []time.Duration) {
	for i := range records {
		if records[i].Arrived > 0 && of(records[i].Client) {
			all = append(all, records[i].Arrived)
		}
	}
	slices.Sort(all)
	return all
}

// entitled judges each tenant in each quiet span, and checks that no request of a tenant below its entitlement
// is refused.
func (r *Result) entitled(records []load.Record, quiet, stalls []check.Span) {
	for _, q := range quiet {
		r.Quiet += q.Length().Seconds()
	}
	least := map[string]Check{}
	rate := func(c *load.Client) float64 { return limits[c.Name].rate }
	all := check.Entitled(records, quiet, stalls, capacity, tenants, rate)
	for _, e := range all {
		part := 1.
		if e.Due > 0 {
			part = e.Admitted / e.Due
		}
		c, found := least[e.Tenant]
		if !found {
			c = Check{Name: "entitled, least of any span", Subject: e.Tenant, Figure: part, Bound: check.Least,
				Pass: true}
		}
		c.Figure = min(c.Figure, part)
		c.Pass = c.Pass && e.Pass
		least[e.Tenant] = c
		if !e.Pass {
			r.Findings = append(r.Findings, check.Finding{Check: c.Name, At: e.Span.From, What: fmt.Sprintf(
				"%s has got %.1f/s of %.1f/s that are due to it, for %.1f s", e.Tenant, e.Admitted, e.Due,
				e.Span.Length().Seconds())})
		}
	}
	for _, t := range tenants {
		if c, found := least[t.Name]; found {
			r.Checks = append(r.Checks, c)
		}
	}
	r.wrongful("", records, quiet, below)
}

// spared checks that no request of clients that a lying gateway spares is refused, also meanwhile.
func (r *Result) spared(records []load.Record, quiet []check.Span) {
	r.wrongful("not named by liars", records, quiet, spared)
}

func (r *Result) wrongful(subject string, records []load.Record, quiet []check.Span, of func(*load.Client) bool) {
	refused, all := check.Wrongful(records, quiet, of)
	part := 100 * float64(len(refused)) / max(1, float64(all))
	r.atMost("refused though below", subject, part, mostRefused, "%")
	if part > mostRefused {
		r.Findings = slices.Concat(r.Findings, some(refused))
	}
}

// mostRefused is the part of such requests that may be refused, %.
const mostRefused = 1

// changes judges that no acknowledged change was lost.
func (r *Result) changes(ctx context.Context, api *calls.API) {
	values, err := api.Read(ctx)
	if err != nil {
		r.Findings = append(r.Findings, check.Finding{Check: "changes", What: err.Error()})
	}
	lost := len(values) == 0
	for _, v := range values {
		lost = lost || v < api.Counted().Last
	}
	figure := 0.
	if lost {
		figure = 1
		r.Findings = append(r.Findings, check.Finding{Check: "changes", What: fmt.Sprintf(
			"coordinators say %v, %d was acknowledged", values, api.Counted().Last)})
	}
	r.atMost("acknowledged changes lost", "", figure, 0, "")
}

func (s *scene) deaths() (found []check.Finding) {
	for _, err := range s.world.Deaths() {
		found = append(found, check.Finding{Check: "deaths", What: err.Error()})
	}
	return found
}

// some is the first few.
func some(all []check.Finding) []check.Finding { return all[:min(len(all), 5)] }

// cores is the CPU time of this process and of all that it has started and that
// have ended, per second.
func cores(lasted time.Duration) float64 {
	used := 0.
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			used += float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
		}
	}
	return used / lasted.Seconds()
}
