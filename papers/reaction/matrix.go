package reaction

// solve replaces b by a⁻¹·b for a square matrix a (by rows, destroyed), by
// elimination with partial pivoting; it reports false when a is singular. It is not
// gonum's because it also solves complex systems, for transfer functions, and allocates
// nothing, for the steps of a vessel.
func solve[T float64 | complex128](a, b []T, abs func(T) float64) bool {
	n := len(b)
	for c := range n {
		best := c
		for i := c + 1; i < n; i++ {
			if abs(a[i*n+c]) > abs(a[best*n+c]) {
				best = i
			}
		}
		if !(abs(a[best*n+c]) > 0) {
			return false
		}
		if best != c {
			for j := c; j < n; j++ {
				a[best*n+j], a[c*n+j] = a[c*n+j], a[best*n+j]
			}
			b[best], b[c] = b[c], b[best]
		}
		for i := c + 1; i < n; i++ {
			f := a[i*n+c] / a[c*n+c]
			if f == 0 {
				continue
			}
			for j := c + 1; j < n; j++ {
				a[i*n+j] -= f * a[c*n+j]
			}
			b[i] -= f * b[c]
		}
	}
	for i := n - 1; i >= 0; i-- {
		for j := i + 1; j < n; j++ {
			b[i] -= a[i*n+j] * b[j]
		}
		b[i] /= a[i*n+i]
	}
	return true
}
