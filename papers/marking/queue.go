package marking

import "github.com/titrate/titrate/control/aqm"

// overflows reports whether a request does not fit into a buffer, cost units. A request
// larger than the buffer still fits into an empty one.
func overflows(a aqm.Arrival, buffer float64) bool {
	return sane(a.Queued) > 0 && sane(a.Queued)+sane(a.Cost) > sane(buffer)
}

// hit is the verdict on a request that a law has chosen.
func hit(m aqm.Mode, greedy bool) aqm.Verdict {
	if m == aqm.DropMode || greedy {
		return aqm.Drop
	}
	return aqm.Mark
}

// chosen is the verdict on an arrival under a buffer and a probability p.
func chosen(m aqm.Mode, a aqm.Arrival, buffer, p float64) aqm.Verdict {
	if overflows(a, buffer) {
		return aqm.Drop
	}
	if a.Rand < p {
		return hit(m, a.Greedy)
	}
	return aqm.Accept
}

// sane maps NaN and negative numbers to 0 and caps the rest at 1e15.
func sane(v float64) float64 { return clip(v, 0, 1e15) }

// clip bounds v to [lo, hi] and maps NaN to lo.
func clip(v, lo, hi float64) float64 {
	if !(v > lo) {
		return lo
	}
	return min(v, hi)
}
