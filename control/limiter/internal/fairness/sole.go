package fairness

// Sole is the meter of a flow that has one client: s and f, in cost units, without clock and
// tags. Models of a flow use it; it does what Meter does (TestSoleIsAMeter).
type Sole struct{ spent, equal float64 }

// depth is d of requests of such a cost.
func (s *Sole) depth(cost float64) float64 { return max(span*s.equal, leastRequests*cost) }

// Charge counts n requests of cost 1 that were served or begin to wait.
func (s *Sole) Charge(n float64) { s.spent = min(s.spent+n, 2*s.depth(1)) }

// Advance lets h seconds pass at a rate of u cost units/s.
func (s *Sole) Advance(h, u float64) {
	s.equal = u
	s.spent = max(0, s.spent-u*min(h, 1))
}

// Pressure is s/d for a request of cost 1.
func (s *Sole) Pressure() float64 { return s.spent / s.depth(1) }
