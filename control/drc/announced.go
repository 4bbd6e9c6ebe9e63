package drc

// announced is the sliding minimum of a replica's own published claims over at
// least one lag (at most two): what every other replica is sure to have heard.
// Two buckets suffice, because a larger window only delays a rise.
type announced struct {
	pub    float64 // last published claim
	m0, m1 float64 // minima of the running and of the finished window
	age    float64 // seconds in the running window
}

// advance lets dt seconds pass under the claim that is published now.
func (w *announced) advance(dt, lag float64) {
	w.age += dt
	if w.age >= lag {
		w.m1, w.m0, w.age = w.m0, w.pub, 0
	}
	w.m0 = min(w.m0, w.pub)
}

// publish announces a new claim; a lower one acts at once.
func (w *announced) publish(claim float64) {
	w.pub = claim
	w.m0 = min(w.m0, claim)
}

// least returns lm, the minimum over the window.
func (w *announced) least() float64 { return min(w.m0, w.m1) }
