package judge

import (
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Quantile q of values in any order, 0 ≤ q ≤ 1: the smallest value that at least the
// part q of all does not exceed (nearest rank). 0 of none.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return stat.Quantile(q, stat.Empirical, slices.Sorted(slices.Values(values)), nil)
}

// Mean of values; 0 of none.
func Mean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return stat.Mean(values, nil)
}
