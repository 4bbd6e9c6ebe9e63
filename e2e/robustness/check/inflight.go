package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/titrate/titrate/e2e/robustness/load"
)

// dying is the most requests of a gateway that dies or of a client that goes which the upstream still has when their
// slots are free already.
const dying = 2

// InFlight returns the most requests that were at the upstream at one time. It finds the times at which there were more
// than a limit allows. Two sides of a cut may have the limit each; a process that dies may be seen by its agent before
// the upstream sees it.
func InFlight(stays []load.Stay, limit int, faults []Fault) (most int, found []Finding) {
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
		if allowed := limit + excusedInFlight(c.at, limit, faults); c.by > 0 && now > allowed {
			found = append(found, Finding{"in flight", c.at, fmt.Sprintf("%d requests, at most %d are allowed", now,
				allowed)})
		}
	}
	return most, found
}

// excusedInFlight returns how many requests more than the limit faults allow at a time.
func excusedInFlight(at time.Duration, limit int, faults []Fault) (more int) {
	for i := range faults {
		f := &faults[i]
		if at < f.From || at > f.over() {
			continue
		}
		if f.Grace.Sides {
			more = max(more, limit)
		}
		if f.Grace.Fails {
			more = max(more, dying)
		}
	}
	return more
}
