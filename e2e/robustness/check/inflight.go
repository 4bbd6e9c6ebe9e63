package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/titrate/titrate/e2e/robustness/load"
)

// dying is the most requests of a gateway that dies which the upstream still has when their slots are free already: a
// third of a limit of 20, and one.
const dying = 8

// InFlight returns the most requests that were at the upstream at one time. It finds the times at which there were more
// than a limit allows. Two sides of a cut may have the limit each. A process that dies may be seen by its agent before
// the upstream sees it. The upstream does not see that a host is gone: it has the requests for as long as they stay.
func InFlight(stays []load.Stay, limit int, faults []Fault) (most int, found []Finding) {
	longest := time.Duration(0)
	for _, s := range stays {
		longest = max(longest, s.To-s.From)
	}
	type change struct {
		at time.Duration
		by int
	}
	changes := make([]change, 0, 2*len(stays))
	for _, s := range stays {
		changes = append(changes, change{s.From, 1}, change{s.To, -1})
	}
	slices.SortFunc(changes, func(a, b change) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.by - b.by // ends first
	})
	now := 0
	for _, c := range changes {
		now += c.by
		most = max(most, now)
		if allowed := limit + excusedInFlight(c.at, limit, longest, faults); c.by > 0 && now > allowed {
			found = append(found, Finding{"in flight", c.at, fmt.Sprintf("%d requests, at most %d are allowed", now,
				allowed)})
		}
	}
	return most, found
}

// excusedInFlight returns how many requests more than the limit faults allow at a time.
func excusedInFlight(at time.Duration, limit int, longest time.Duration, faults []Fault) (more int) {
	for i := range faults {
		switch f := &faults[i]; {
		case at < f.From:
		case f.Grace.Sides && at <= f.over():
			more = max(more, limit)
		case (f.Grace.Sides || f.Grace.Fails) && at <= f.over()+longest:
			more = max(more, dying)
		}
	}
	return more
}
