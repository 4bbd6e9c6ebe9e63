package judge

import "time"

// Window sums the admitted cost in a window that slides. It keeps only the window's requests.
type Window struct {
	Width time.Duration
	queue []admission
	first int
	sum   float64
}

type admission struct {
	at   time.Duration
	cost float64
}

// Admit counts a cost admitted at t and returns the sum over (t − Width, t].
func (w *Window) Admit(t time.Duration, cost float64) float64 {
	for w.first < len(w.queue) && w.queue[w.first].at <= t-w.Width {
		w.sum -= w.queue[w.first].cost
		w.first++
	}
	switch {
	case w.first == len(w.queue):
		w.queue, w.first, w.sum = w.queue[:0], 0, 0 // no rounding is carried on
	case w.first > 64 && 2*w.first > len(w.queue):
		w.queue = w.queue[:copy(w.queue, w.queue[w.first:])]
		w.first = 0
	}
	w.queue = append(w.queue, admission{t, cost})
	w.sum += cost
	return w.sum
}
