package check

import (
	"fmt"
	"time"

	"github.com/titrate/titrate/e2e/robustness/load"
)

// Finding is something that must not be.
type Finding struct {
	Check string        `json:"check"`
	At    time.Duration `json:"at"` // since the load's start
	What  string        `json:"what"`
}

// Failed finds requests that failed without an excuse.
func Failed(records []load.Record, faults []Fault) (found []Finding) {
	for i := range records {
		r := &records[i]
		if r.Err == "" || excused(r, faults, func(g *Grace) bool { return g.Fails }) {
			continue
		}
		found = append(found, Finding{"failed", r.Sent, fmt.Sprintf("%s/%s at %s after %.2f s: %s",
			r.Client.Tenant, r.Client.Name, r.Gateway, r.Took.Seconds(), r.Err)})
	}
	return found
}

// Blocked finds requests that were answered later than the bound, or after the
// fault that blocked them plus the bound. Time in which the machine stood still
// does not count.
func Blocked(records []load.Record, faults []Fault, stalls []Span, bound time.Duration) (found []Finding) {
	for i := range records {
		r := &records[i]
		if r.Took <= bound || r.Took-Stalled(Span{r.Sent, r.Sent + r.Took}, stalls) <= bound ||
			excused(r, faults, func(g *Grace) bool { return g.Blocks || g.Fails }) {
			continue
		}
		found = append(found, Finding{"blocked", r.Sent,
			fmt.Sprintf("%s/%s at %s for %.2f s, at most %.2f s are allowed",
				r.Client.Tenant, r.Client.Name, r.Gateway, r.Took.Seconds(), bound.Seconds())})
	}
	return found
}

// excused reports whether a request was under way at the gateway of a fault that
// excuses it.
func excused(r *load.Record, faults []Fault, by func(*Grace) bool) bool {
	for i := range faults {
		f := &faults[i]
		here := f.Gateway == r.Gateway || f.Gateway == AllGateways
		if here && by(&f.Grace) && r.Sent <= f.To && r.Sent+r.Took >= f.From {
			return true
		}
	}
	return false
}

// Wrongful finds refusals of clients that stay below their limit and their tenant below
// its share, and counts all that they sent in the quiet spans.
func Wrongful(records []load.Record, quiet []Span, below func(*load.Client) bool) (refused []Finding, of int) {
	for i := range records {
		r := &records[i]
		if !below(r.Client) || !within(r.Sent, quiet) {
			continue
		}
		of++
		if r.Status == 429 {
			refused = append(refused, Finding{"refused though below", r.Sent,
				fmt.Sprintf("%s/%s at %s after %.2f s: %s",
					r.Client.Tenant, r.Client.Name, r.Gateway, r.Took.Seconds(), r.Reason)})
		}
	}
	return refused, of
}

func within(at time.Duration, spans []Span) bool {
	for _, s := range spans {
		if at >= s.From && at < s.To {
			return true
		}
	}
	return false
}
