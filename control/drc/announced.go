package drc

// announced remembers a replica's recent claims. Its minimum is taken over at least one lag
// (at most two), so every other replica has surely received no less. Two windows suffice,
// because a larger one only delays a rise. Its mean covers a whole window that ended at
// least one lag ago: claims that every other replica has surely received.
type announced struct {
	pub          float64 // last published claim
	m0, m1       float64 // minima of the running and of the finished window
	sum          float64 // integral of the claim over the running window
	mean1, mean2 float64 // means of the finished window and of the one before
	age          float64 // seconds in the running window
}

// advance lets dt seconds pass under the claim that is published now.
func (w *announced) advance(dt, lag float64) {
	w.age += dt
	w.sum += dt * w.pub
	if w.age >= lag {
		w.m1, w.m0 = w.m0, w.pub
		w.mean1, w.mean2 = w.sum/max(w.age, minQuantity), w.mean1
		w.sum, w.age = 0, 0
	}
	w.m0 = min(w.m0, w.pub)
}

// publish announces a new claim; a lower one acts at once.
func (w *announced) publish(claim float64) {
	w.pub = claim
	w.m0 = min(w.m0, claim)
}

// least returns lm, the minimum over the running and the finished window.
func (w *announced) least() float64 { return min(w.m0, w.m1) }

// mean returns the mean over the window before the finished one.
func (w *announced) mean() float64 { return w.mean2 }
