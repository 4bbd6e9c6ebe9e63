package reaction

import (
	"errors"
	"fmt"
	"math"
	"math/cmplx"
)

// Linear is a network linearised about a state c*:
//
//	dx/dt = A·x + B·u,   x = c − c*,  u = p − p*          (11)
//	A = Ψ·∂v/∂c,  B = Ψ·∂v/∂p                             (10)
//
// The conserved sums make A singular. One species per sum is therefore
// expressed by the others, which leaves the states that can really move.
type Linear struct {
	// A and B are the matrices over all species, a row per species.
	A, B [][]float64

	net     *Network
	slopes  [][]float64 // ∂v_r/∂c_i, a row per reaction
	free    []int       // the species that remain
	reduced []float64   // A over them
}

// Linearize returns the linearisation about the present amounts. In a steady state the transfer functions are
// the paper's.
func (v *Vessel) Linearize() *Linear {
	n, l := len(v.c), &Linear{net: v.net}
	a := make([]float64, n*n)
	v.jacobian(a, v.c, 1)
	for i := range n {
		l.A = append(l.A, a[i*n:(i+1)*n])
		l.B = append(l.B, make([]float64, len(v.p)))
	}
	for j, f := range v.net.feeds {
		l.B[f.into][j] = 1
	}
	for r := range v.k {
		row := make([]float64, n)
		for i := range row {
			row[i] = v.slope(r, Species(i), v.c)
		}
		l.slopes = append(l.slopes, row)
	}
	l.reduce()
	return l
}

// reduce eliminates the species that the conserved sums determine.
func (l *Linear) reduce() {
	determined := map[int]bool{}
	for _, p := range l.net.pivots {
		determined[p] = true
	}
	for i := range l.A {
		if !determined[i] {
			l.free = append(l.free, i)
		}
	}
	for _, i := range l.free {
		l.reduced = append(l.reduced, l.project(l.A[i])...)
	}
}

// project writes a row over all species as one over the free ones: a law's own
// species is x_d = −Σ L_dj·x_j.
func (l *Linear) project(row []float64) []float64 {
	out := make([]float64, len(l.free))
	for k, j := range l.free {
		out[k] = row[j]
		for law, d := range l.net.pivots {
			out[k] -= row[d] * l.net.laws[law*len(row)+j]
		}
	}
	return out
}

// Poles returns the eigenvalues of the reduced A, see [Transfer.Poles].
func (l *Linear) Poles() []complex128 { return eigenvalues(l.reduced, len(l.free)) }

// ToFlux returns the transfer function from an input to the rate of a reaction.
func (l *Linear) ToFlux(in Input, r Reaction) Transfer { return l.transfer(in, l.slopes[r]) }

// ToAmount returns the transfer function from an input to an amount.
func (l *Linear) ToAmount(in Input, s Species) Transfer {
	row := make([]float64, len(l.A))
	row[s] = 1
	return l.transfer(in, row)
}

func (l *Linear) transfer(in Input, row []float64) Transfer {
	t := Transfer{a: l.reduced, c: l.project(row)}
	for _, i := range l.free {
		t.b = append(t.b, l.B[i][in])
	}
	return t
}

// Transfer is a strictly proper transfer function H(s) = C·(s·I − A)⁻¹·B of one
// input and one output. It is kept as matrices: polynomials lose their roots to
// rounding when poles are orders of magnitude apart, as they are here.
type Transfer struct{ a, b, c []float64 }

// Rational returns num(s)/den(s), coefficients from the highest power down.
func Rational(num, den []float64) (Transfer, error) {
	n := len(den) - 1
	switch {
	case n < 1 || den[0] == 0:
		return Transfer{},
			errors.New("reaction: the denominator must have degree 1 or more and a leading coefficient other than 0")
	case len(num) > n:
		return Transfer{},
			fmt.Errorf("reaction: numerator of degree %d over degree %d: only strictly proper functions have a state",
				len(num)-1, n)
	}
	for _, v := range append(append([]float64(nil), num...), den...) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return Transfer{}, fmt.Errorf("reaction: coefficient %v is not finite", v)
		}
	}
	t := Transfer{a: make([]float64, n*n), b: make([]float64, n), c: make([]float64, n)}
	for i := 1; i < n; i++ {
		t.a[(i-1)*n+i] = 1
	}
	for j := range n {
		t.a[(n-1)*n+j] = -den[n-j] / den[0]
	}
	t.b[n-1] = 1
	for j := range num {
		t.c[j] = num[len(num)-1-j] / den[0]
	}
	return t, nil
}

// At returns H(s); at a pole it is infinite.
func (t Transfer) At(s complex128) complex128 {
	n := len(t.b)
	m, x := make([]complex128, n*n), make([]complex128, n)
	for i := range n {
		for j := range n {
			m[i*n+j] = complex(-t.a[i*n+j], 0)
		}
		m[i*n+i] += s
		x[i] = complex(t.b[i], 0)
	}
	if !solve(m, x, cmplx.Abs) {
		return cmplx.Inf()
	}
	sum := complex128(0)
	for i, c := range t.c {
		sum += complex(c, 0) * x[i]
	}
	return sum
}

// Poles returns the eigenvalues of A, in order of rising real part. The result has also
// the poles that no input reaches or no output shows.
func (t Transfer) Poles() []complex128 { return eigenvalues(t.a, len(t.b)) }

// Denominator returns the coefficients of Π(s − pole), highest power first.
func (t Transfer) Denominator() []float64 {
	poly := []complex128{1}
	for _, p := range t.Poles() {
		poly = append(poly, 0)
		for k := len(poly) - 1; k > 0; k-- {
			poly[k] -= p * poly[k-1]
		}
	}
	out := make([]float64, len(poly))
	for k, c := range poly {
		out[k] = real(c)
	}
	return out
}

// closed returns A + gain·B·C, the dynamics when the output feeds the input.
func (t Transfer) closed(gain float64) []float64 {
	n := len(t.b)
	out := append([]float64(nil), t.a...)
	for i, b := range t.b {
		for j, c := range t.c {
			out[i*n+j] += gain * b * c
		}
	}
	return out
}
