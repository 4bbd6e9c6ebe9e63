package inflight

import (
	"cmp"
	"slices"
	"time"

	"github.com/titrate/titrate/e2e/bench/openloop"
	"github.com/titrate/titrate/lab/judge"
)

// visit is the time from which to which a request was in flight, since the start of the run.
type visit struct{ from, to time.Duration }

// level is the number of requests in flight from a time on.
type level struct {
	t time.Duration
	n int
}

// history is all levels, in order of time. Before the first the level is 0.
type history []level

// historyOf is the history of all visits. A visit that ends as another begins has ended before.
func historyOf(visits []visit) history {
	h := make(history, 0, 2*len(visits))
	for _, v := range visits {
		h = append(h, level{v.from, 1}, level{v.to, -1})
	}
	slices.SortFunc(h, func(a, b level) int { return cmp.Or(cmp.Compare(a.t, b.t), cmp.Compare(a.n, b.n)) })
	n := 0
	for i := range h {
		n += h[i].n
		h[i].n = n
	}
	return h
}

// after is the index of the first level after t.
func (h history) after(t time.Duration) int {
	i, _ := slices.BinarySearchFunc(h, t, func(l level, t time.Duration) int {
		if l.t <= t {
			return -1
		}
		return 1
	})
	return i
}

// at is the level at t.
func (h history) at(t time.Duration) int {
	if i := h.after(t); i > 0 {
		return h[i-1].n
	}
	return 0
}

// most is the highest level.
func (h history) most() (most int) {
	for _, l := range h {
		most = max(most, l.n)
	}
	return most
}

// sum is the integral of the level from one time to another, in seconds.
func (h history) sum(from, to time.Duration) (sum float64) {
	n, t := h.at(from), from
	for _, l := range h[h.after(from):h.after(to)] {
		sum += float64(n) * (l.t - t).Seconds()
		n, t = l.n, l.t
	}
	return sum + float64(n)*(to-t).Seconds()
}

// Figures are the figures of a system in a cell.
type Figures struct {
	Asked   int     `json:"asked"`
	Served  int     `json:"served"`
	Refused int     `json:"refused"`
	Failed  int     `json:"failed"`
	Wanted  float64 `json:"wanted"` // in flight without a limit, over the limit, as drawn
	Use     float64 `json:"use"`
	// Held is the use as the gateways see it, with requests and answers that are on their way.
	Held float64 `json:"useAtGateways"`
	// Wrongly is the share of requests that were refused while the upstream had less than the limit. Free is the
	// share of those refused while the gateways had.
	Wrongly float64 `json:"refusedWrongly"`
	Free    float64 `json:"refusedWronglyAtGateways"`
	Most    int     `json:"most"`
	AddedMs float64 `json:"addedP50Ms"` // of the answered: latency less the stay at the upstream
	LateMs  float64 `json:"startsLateP99Ms"`
	Void    bool    `json:"void"`
}

// latest is the lateness of starts, at the 99th percentile, beyond which a cell proves nothing.
const latest = 20 * time.Millisecond

// tally sums the runs of a system in a cell.
type tally struct {
	limit              int
	seconds            float64 // that were judged
	busy, held, wanted float64 // requests × seconds
	wrongly, free      int
	added, late        []float64 // ms
	f                  Figures
}

// take judges a run from one time to another. visits has the times at the upstream, by request.
func (y *tally) take(p *plan, results []openloop.Result, visits []visit, from, to time.Duration) {
	at := seenOf(results, visits)
	y.seconds += (to - from).Seconds()
	y.busy += at.upstream.sum(from, to)
	y.held += at.gateways.sum(from, to)
	y.f.Most = max(y.f.Most, at.upstream.most())
	for i := range results {
		r := &results[i]
		if r.Due < from || r.Due >= to {
			continue
		}
		y.f.Asked++
		y.wanted += p.stays[r.Request].Seconds()
		switch r.Status {
		case statusServed:
			y.f.Served++
			v := visits[r.Request]
			y.added = append(y.added, milliseconds(r.Done-r.Sent-(v.to-v.from)))
		case statusRefused:
			y.f.Refused++
			y.refused(r.Done, at)
		default:
			y.f.Failed++
			continue // not sent, if its gateway was down
		}
		y.late = append(y.late, milliseconds(r.Sent-r.Due))
	}
}

// refused judges a refusal that came to its client at a time.
func (y *tally) refused(done time.Duration, at seen) {
	if at.upstream.at(done) < y.limit {
		y.wrongly++
	}
	if at.gateways.at(done-at.way) < y.limit {
		y.free++
	}
}

// seen is a run as the upstream saw it, and as the gateways did.
type seen struct {
	upstream, gateways history
	way                time.Duration // between a gateway and its client or the upstream
}

// seenOf makes the histories. A gateway is half way between client and upstream. Answers do not wait anywhere. So half
// of their mean way is taken for each way that is not seen: of a request to the upstream, of a refusal to the client.
func seenOf(results []openloop.Result, visits []visit) seen {
	var back, served time.Duration
	for i := range results {
		if r := &results[i]; r.Status == statusServed {
			back += r.Done - visits[r.Request].to
			served++
		}
	}
	way := back / max(served, 1) / 2
	var upstream, gateways []visit
	for i := range results {
		r := &results[i]
		v := visits[r.Request]
		if v == (visit{}) {
			continue
		}
		upstream = append(upstream, v)
		gateways = append(gateways, visit{v.from - way, v.to + max(0, r.Done-v.to)/2})
	}
	return seen{historyOf(upstream), historyOf(gateways), way}
}

// figures returns the figures of all runs together.
func (y *tally) figures() Figures {
	f, asked := y.f, float64(max(y.f.Asked, 1))
	f.Wanted = y.wanted / y.seconds / float64(y.limit)
	whole := y.seconds * float64(y.limit) * min(1, f.Wanted)
	f.Use, f.Held = y.busy/whole, y.held/whole
	f.Wrongly, f.Free = float64(y.wrongly)/asked, float64(y.free)/asked
	f.AddedMs, f.LateMs = judge.Quantile(y.added, .5), judge.Quantile(y.late, .99)
	f.Void = f.LateMs > milliseconds(latest)
	return f
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }
