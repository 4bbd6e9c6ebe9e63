package reaction

import (
	"math"
	"math/cmplx"
	"slices"
)

// eigenvalues returns the eigenvalues of an n×n matrix (by rows, not changed)
// in order of rising real part, then rising imaginary part: balancing,
// reduction to Hessenberg form, shifted QR. Eigenvalues that do not converge,
// which takes a matrix that is not finite, are NaN.
func eigenvalues(a []float64, n int) []complex128 {
	work := append([]float64(nil), a...)
	balance(work, n)
	hessenberg(work, n)
	h := make([]complex128, n*n)
	norm := 0.0
	for i, v := range work {
		h[i] = complex(v, 0)
		norm = max(norm, math.Abs(v))
	}
	out := qr(h, n)
	for i, v := range out {
		if math.Abs(imag(v)) <= 1e-13*norm || math.Abs(imag(v)) <= 1e-12*cmplx.Abs(v) {
			out[i] = complex(real(v), 0)
		}
	}
	slices.SortFunc(out, func(x, y complex128) int {
		if real(x) < real(y) || real(x) == real(y) && imag(x) < imag(y) {
			return -1
		}
		return 1
	})
	return out
}

// balance scales rows and columns by powers of two until their sums are alike:
// amounts of 1e8 beside amounts of 1e-6 would otherwise drown small poles.
func balance(a []float64, n int) {
	for changed, rounds := true, 0; changed && rounds < 100; rounds++ {
		changed = false
		for i := range n {
			row, col := 0.0, 0.0
			for j := range n {
				if j != i {
					row += math.Abs(a[i*n+j])
					col += math.Abs(a[j*n+i])
				}
			}
			if row == 0 || col == 0 {
				continue
			}
			f := math.Exp2(math.Round(math.Log2(row/col) / 2))
			if f == 1 {
				continue
			}
			changed = true
			for j := range n {
				a[i*n+j] /= f
				a[j*n+i] *= f
			}
		}
	}
}

// hessenberg brings a to upper Hessenberg form by elimination with pivoting.
func hessenberg(a []float64, n int) {
	for c := range max(n-2, 0) {
		best := c + 1
		for i := c + 2; i < n; i++ {
			if math.Abs(a[i*n+c]) > math.Abs(a[best*n+c]) {
				best = i
			}
		}
		if a[best*n+c] == 0 {
			continue
		}
		for j := range n {
			a[best*n+j], a[(c+1)*n+j] = a[(c+1)*n+j], a[best*n+j]
		}
		for i := range n {
			a[i*n+best], a[i*n+c+1] = a[i*n+c+1], a[i*n+best]
		}
		for i := c + 2; i < n; i++ {
			f := a[i*n+c] / a[(c+1)*n+c]
			for j := range n {
				a[i*n+j] -= f * a[(c+1)*n+j]
			}
			for j := range n {
				a[j*n+c+1] += f * a[j*n+i]
			}
			a[i*n+c] = 0
		}
	}
}

// qr finds the eigenvalues of an upper Hessenberg matrix, which it destroys.
func qr(h []complex128, n int) []complex128 {
	out := make([]complex128, n)
	for hi, rounds := n-1, 0; hi >= 0; rounds++ {
		lo := split(h, n, hi)
		if lo == hi {
			out[hi] = h[hi*n+hi]
			hi, rounds = hi-1, -1
			continue
		}
		if rounds > 200 {
			for i := range hi + 1 {
				out[i] = cmplx.NaN()
			}
			return out
		}
		shift := wilkinson(h, n, hi)
		if rounds%10 == 9 { // break a cycle
			shift += complex(cmplx.Abs(h[hi*n+hi-1]), 0)
		}
		sweep(h, n, lo, hi, shift)
	}
	return out
}

// split returns where the active block that ends at hi begins, and zeroes the
// negligible entry before it.
func split(h []complex128, n, hi int) int {
	for l := hi; l > 0; l-- {
		size := cmplx.Abs(h[l*n+l]) + cmplx.Abs(h[(l-1)*n+l-1])
		if cmplx.Abs(h[l*n+l-1]) <= 0x1p-52*size {
			h[l*n+l-1] = 0
			return l
		}
	}
	return 0
}

// wilkinson is the eigenvalue of the last 2×2 block nearest to its corner.
func wilkinson(h []complex128, n, hi int) complex128 {
	a, b := h[(hi-1)*n+hi-1], h[(hi-1)*n+hi]
	c, d := h[hi*n+hi-1], h[hi*n+hi]
	half := (a - d) / 2
	root := cmplx.Sqrt(half*half + b*c)
	x, y := d+half+root, d+half-root
	if cmplx.Abs(x-d) < cmplx.Abs(y-d) {
		return x
	}
	return y
}

// sweep does one shifted QR step on the block lo..hi with Givens rotations.
func sweep(h []complex128, n, lo, hi int, shift complex128) {
	for i := lo; i <= hi; i++ {
		h[i*n+i] -= shift
	}
	turns := make([][2]complex128, hi-lo)
	for k := lo; k < hi; k++ {
		x, y := h[k*n+k], h[(k+1)*n+k]
		r := math.Hypot(cmplx.Abs(x), cmplx.Abs(y))
		if r == 0 {
			turns[k-lo] = [2]complex128{1, 0}
			continue
		}
		c, s := x/complex(r, 0), y/complex(r, 0)
		turns[k-lo] = [2]complex128{c, s}
		for j := k; j <= hi; j++ {
			u, v := h[k*n+j], h[(k+1)*n+j]
			h[k*n+j] = cmplx.Conj(c)*u + cmplx.Conj(s)*v
			h[(k+1)*n+j] = c*v - s*u
		}
	}
	for k := lo; k < hi; k++ {
		c, s := turns[k-lo][0], turns[k-lo][1]
		for i := lo; i <= min(k+1, hi); i++ {
			u, v := h[i*n+k], h[i*n+k+1]
			h[i*n+k] = u*c + v*s
			h[i*n+k+1] = v*cmplx.Conj(c) - u*cmplx.Conj(s)
		}
	}
	for i := lo; i <= hi; i++ {
		h[i*n+i] += shift
	}
}
