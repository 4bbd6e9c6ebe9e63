package check

import (
	"slices"
	"time"
)

// Grace is the set of deviations that a kind of fault excuses. Its zero value excuses nothing.
type Grace struct {
	// Fails: requests at the fault's gateway that are under way while the fault
	// begins or lasts may fail.
	Fails bool
	// Blocks: requests at the fault's gateway may wait until it is over.
	Blocks bool
	// Unfair is the time after the fault in which tenants may get less than their entitlement. During the fault
	// they may, too, unless Fair.
	Unfair time.Duration
	// Fair: entitlements hold also while the fault lasts.
	Fair bool
	// More is the part of a limit's rate and of a pool's capacity that may be
	// admitted in addition, while the fault lasts and for Unfair after it.
	More float64
	// Freezes: there may be no leader, so that shares are frozen and the pool admits
	// Bound.Frozen more while the fault lasts and for Unfair after it.
	Freezes bool
	// Ledgers: the ledgers of gateways may decide for EXACT limits, while the fault lasts and for
	// Unfair after it.
	Ledgers bool
	// Sides: two sides may each hold a limit that is EXACT, stated or because agents are near, while the fault lasts
	// and for Unfair after it.
	Sides bool
	// Delay is the additional gossip delay because of the fault.
	Delay time.Duration
	// Spares: while the fault lasts, and for Unfair after it, clients that it does not name are refused nothing below
	// their limit.
	Spares bool
	// Bursts is the number of a limit's bursts that may be admitted in addition, once.
	Bursts float64
}

// AllGateways is the gateway of a fault of all gateways.
const AllGateways = "all"

// Fault is a past fault, from its beginning to the end of its undoing.
type Fault struct {
	Kind     string        `json:"kind"`
	What     string        `json:"what"`
	Gateway  string        `json:"gateway,omitempty"` // AllGateways: all
	From, To time.Duration // since the load's start
	Grace    Grace         `json:"-"`
}

// over returns the end of the fault's grace.
func (f *Fault) over() time.Duration { return f.To + f.Grace.Unfair }

// Over returns the time at which the graces of all faults have ended.
func Over(faults []Fault) (last time.Duration) {
	for i := range faults {
		last = max(last, faults[i].over())
	}
	return last
}

// During reports whether a time is in a fault or its grace.
func During(at time.Duration, faults []Fault) bool {
	for i := range faults {
		if at >= faults[i].From && at <= faults[i].over() {
			return true
		}
	}
	return false
}

// Span is a time from, to.
type Span struct{ From, To time.Duration }

// Length of the span.
func (s Span) Length() time.Duration { return s.To - s.From }

// Quiet are the spans between from and to, of at least the given length, in which
// every tenant is due what it is entitled to.
func Quiet(faults []Fault, from, to, least time.Duration) (quiet []Span) {
	sorted := slices.Clone(faults)
	slices.SortFunc(sorted, func(a, b Fault) int { return int(a.From - b.From) })
	add := func(until time.Duration) {
		if s := (Span{from, min(until, to)}); s.Length() >= least {
			quiet = append(quiet, s)
		}
	}
	for i := range sorted {
		f := &sorted[i]
		if f.Grace.Fair {
			continue
		}
		add(f.From)
		from = max(from, f.over())
	}
	add(to)
	return quiet
}

// Unsparing returns the faults that do not spare clients.
func Unsparing(faults []Fault) []Fault {
	return slices.DeleteFunc(slices.Clone(faults), func(f Fault) bool { return f.Grace.Spares })
}

// Stalled returns for how long the machine stood still in a span. Stalls do not overlap.
func Stalled(s Span, stalls []Span) (sum time.Duration) {
	for _, x := range stalls {
		sum += max(0, min(s.To, x.To)-max(s.From, x.From))
	}
	return sum
}
