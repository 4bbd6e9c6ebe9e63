package reaction

import (
	"cmp"
	"math"
	"math/cmplx"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// eigenvalues returns the eigenvalues of an n×n matrix (by rows, not changed) in order of
// rising real part, then rising imaginary part. An imaginary part within rounding counts
// as 0. Those of a matrix that is not finite are NaN.
func eigenvalues(a []float64, n int) []complex128 {
	if n == 0 {
		return nil
	}
	norm := 0.0
	for _, v := range a {
		norm = max(norm, math.Abs(v)) // NaN stays NaN
	}
	var e mat.Eigen
	if math.IsNaN(norm) || math.IsInf(norm, 0) || !e.Factorize(mat.NewDense(n, n, slices.Clone(a)), mat.EigenNone) {
		return slices.Repeat([]complex128{cmplx.NaN()}, n)
	}
	out := e.Values(nil)
	for i, v := range out {
		if math.Abs(imag(v)) <= 1e-13*norm || math.Abs(imag(v)) <= 1e-12*cmplx.Abs(v) {
			out[i] = complex(real(v), 0)
		}
	}
	slices.SortFunc(out, func(x, y complex128) int {
		return cmp.Or(cmp.Compare(real(x), real(y)), cmp.Compare(imag(x), imag(y)))
	})
	return out
}
