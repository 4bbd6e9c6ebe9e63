// Package paired compares variants that were measured in turn, round by round,
// on a machine whose speed changes from minute to minute.
//
// # Model
//
// In each round every variant is measured once, close together in time, so that the machine's other work
// affects all variants about equally. So the unit is the ratio, or the difference, to the base within a round,
// and the estimate is the median over rounds: a disturbed round moves the median little.
//
// # The interval
//
// The interval of a median is distribution-free: the k-th smallest and k-th
// largest of n values, with the largest k for which
//
//	1 − 2·P(Binomial(n, 1/2) < k) ≥ confidence.
//
// With n < 6 no such k exists for 95 %, and the interval is the whole line.
package paired

import (
	"fmt"
	"math"
	"slices"
)

// Sample is the figures of one measurement, by name.
type Sample map[string]float64

// Rounds are the samples of each variant, one per round.
type Rounds map[string][]Sample

// Ratios of a figure to the base's, by round.
func (r Rounds) Ratios(variant, base, figure string) []float64 {
	return r.combine(variant, base, figure, func(a, b float64) float64 { return a / b })
}

// Differences of a figure to the base's, by round.
func (r Rounds) Differences(variant, base, figure string) []float64 {
	return r.combine(variant, base, figure, func(a, b float64) float64 { return a - b })
}

// Values of a figure, by round.
func (r Rounds) Values(variant, figure string) []float64 {
	var out []float64
	for _, s := range r[variant] {
		out = append(out, s[figure])
	}
	return out
}

func (r Rounds) combine(variant, base, figure string, f func(a, b float64) float64) []float64 {
	var out []float64
	for i, s := range r[variant] {
		out = append(out, f(s[figure], r[base][i][figure]))
	}
	return out
}

// Median of values in any order.
func Median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	if len(v) == 0 {
		return 0
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// Interval is the 95 % confidence interval of the median.
func Interval(values []float64) (low, high float64) {
	const confidence = .95
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	below, term := 0.0, math.Pow(.5, float64(n)) // P(X < k), P(X = k)
	k := 0
	for ; k < (n+1)/2 && 1-2*(below+term) >= confidence; k++ {
		below += term
		term *= float64(n-k) / float64(k+1)
	}
	if k == 0 {
		return math.Inf(-1), math.Inf(1)
	}
	return v[k-1], v[n-k]
}

// Spread is the median and the 95 % interval as text.
func Spread(values []float64, digits int) string {
	low, high := Interval(values)
	if math.IsInf(low, 0) && len(values) > 0 { // too few rounds: the range, marked as such
		return fmt.Sprintf("%.*f (range %.*f–%.*f)", digits, Median(values), digits, slices.Min(values), digits,
			slices.Max(values))
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, Median(values), digits, low, digits, high)
}
