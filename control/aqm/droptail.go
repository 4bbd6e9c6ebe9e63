package aqm

// DropTail bounds the queue by the work it can do within a delay target:
//
//	K = max(3, C0·d_T)        arrival: queued + cost > K → drop
//
// The floor of three keeps a small share usable. A request larger than K is
// still accepted into an empty queue, or it could never be served. The zero
// value holds K = 3.
type DropTail struct {
	// Delay is the target d_T in seconds, range > 0. Larger absorbs longer
	// bursts and makes everybody wait longer under overload.
	Delay float64
	// Deadline discards a request at departure that waited longer, in
	// seconds; 0 keeps all.
	Deadline float64

	c0 float64
}

// Step sets the service rate c0 (units/s).
func (d *DropTail) Step(_, _, c0, _ float64) { d.c0 = sane(c0) }

// Limit is K, the most cost that may wait.
func (d *DropTail) Limit() float64 { return tailLimit(d.c0, d.Delay) }

// Arrive accepts what fits below Limit.
func (d *DropTail) Arrive(a Arrival) Verdict {
	return tail(sane(a.Queued), sane(a.Cost), d.Limit())
}

// Depart drops what waited longer than Deadline.
func (d *DropTail) Depart(_, _, sojourn float64) Verdict { return stale(sojourn, d.Deadline) }

// tailLimit is K = max(3, C0·d_T).
func tailLimit(c0, delay float64) float64 { return max(3, c0*sane(delay)) }

// tail is the drop-tail verdict for a queue bounded by limit.
func tail(queued, cost, limit float64) Verdict {
	if queued > 0 && queued+cost > limit {
		return Drop
	}
	return Accept
}

// stale is the verdict on a head that waited sojourn under a deadline (0 = none).
func stale(sojourn, deadline float64) Verdict {
	if deadline > 0 && sojourn > deadline {
		return Drop
	}
	return Accept
}
