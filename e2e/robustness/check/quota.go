package check

import "slices"

// lostUnits are the most units of a calendar quota that a fault loses: a step and a half, and what a gateway has ahead.
// A step is twice the largest burst.
const lostUnits = 20

// Quota returns how many requests of the amount of a calendar quota may be unused after faults, never more than a half.
// Not judged: an agent that lies may grant more units than there are, or use them up.
func Quota(amount int, faults []Fault) (unused int, judged bool) {
	lies := func(f Fault) bool { return f.Kind == "lying-agent" }
	return min(amount/2, lostUnits*(1+len(faults))), !slices.ContainsFunc(faults, lies)
}
