package measure

import (
	"math"
	"time"
)

// waits is a histogram of waiting times; its buckets are 2 % wide.
type waits struct {
	none    int // that did not wait
	count   int
	sum     time.Duration
	longest time.Duration
	buckets []uint32 // i: up to finest·1.02^i
}

const (
	finest  = 100 * time.Microsecond
	spacing = 1.02
)

func (w *waits) add(d time.Duration) {
	w.count++
	if d <= 0 {
		w.none++
		return
	}
	w.sum += d
	w.longest = max(w.longest, d)
	i := max(0, int(math.Ceil(math.Log(float64(d)/float64(finest))/math.Log(spacing))))
	for len(w.buckets) <= i {
		w.buckets = append(w.buckets, 0)
	}
	w.buckets[i]++
}

// quantile is the wait that the part q of all did not exceed.
func (w *waits) quantile(q float64) time.Duration {
	rank := int(math.Ceil(q*float64(w.count))) - w.none
	if rank <= 0 {
		return 0
	}
	for i, n := range w.buckets {
		if rank -= int(n); rank <= 0 {
			return min(w.longest, time.Duration(float64(finest)*math.Pow(spacing, float64(i))))
		}
	}
	return w.longest
}

func (w *waits) result() Waits {
	r := Waits{P50Ms: milliseconds(w.quantile(.5)), P99Ms: milliseconds(w.quantile(.99)),
		MaxMs: milliseconds(w.longest)}
	if w.count > 0 {
		r.MeanMs = milliseconds(w.sum) / float64(w.count)
	}
	return r
}

func milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }
