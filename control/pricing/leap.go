package pricing

import "math"

const (
	// mostLeaping is the most priced pools for which leaps are made: the work grows with
	// the cube of their number, the memory with the square.
	mostLeaping = 400
	// damping keeps the equations of a leap solvable where pools have nearly the same
	// tenants; it changes the step by about that part.
	damping = 1e-10
	// overshoot is the part of the slope at the start that may remain where a leap ends,
	// with either sign.
	overshoot = 0.1
	// mostTrials bounds the search for a leap's length.
	mostTrials = 30
)

// newton is the working memory of a leap.
type newton struct {
	priced []int32   // pools with a price, that is, the unknowns
	place  []int32   // of a pool among them, from 1; 0 = not priced
	h      []float64 // H by rows, then its Cholesky factor
	step   []float64 // load − C, then d
	start  []float64 // prices before the leap
}

func (n *newton) size(pools int) {
	most := min(pools, mostLeaping)
	n.priced, n.place = make([]int32, 0, pools), make([]int32, pools)
	n.h, n.step, n.start = make([]float64, most*most), make([]float64, most), make([]float64, most)
}

// leap moves all prices at once, by Newton's step for the loads of the priced pools:
//
//	H·d = load − C,   H_rs = −∂load_r/∂p_s = Σ_i a_ri·a_si·x_i/(α·q_i)
//
// over the tenants that are between their bounds. H is the Hessian of the convex dual
// problem and d a direction of descent. The leap ends where the slope along d,
// Σ d·(C − load), is nearly 0, and at the latest where a price reaches 0. It reports
// whether any price changed.
func (m *Market) leap(alpha float64) bool {
	n := &m.newton
	if !m.gather() {
		return false
	}
	m.hessian(alpha)
	k := len(n.priced)
	step, steepness := n.step[:k], 0.0
	var excess [mostLeaping]float64
	copy(excess[:k], step)
	if !cholesky(n.h[:k*k], step) {
		return false
	}
	length := 1.0
	for j, r := range n.priced {
		n.start[j] = m.pools[r].price
		steepness += step[j] * excess[j]
		if step[j] < 0 {
			length = min(length, -n.start[j]/step[j])
		}
	}
	if !(steepness > 0) {
		return false
	}
	low, high := 0.0, length
	for range mostTrials {
		m.walk(length)
		turned := -m.slopeAlong(alpha)
		if turned <= overshoot*steepness && (turned >= -overshoot*steepness || length == high) {
			return true
		}
		if turned > 0 {
			high = length
		} else {
			low = length
		}
		length = (low + high) / 2
	}
	m.walk(low)
	return low > 0
}

// gather lists the priced pools and the excess of their loads. It reports false
// if there are none, or too many.
func (m *Market) gather() bool {
	n := &m.newton
	n.priced = n.priced[:0]
	for r := range m.pools {
		n.place[r] = 0
		if p := &m.pools[r]; p.price > 0 {
			n.priced = append(n.priced, int32(r))
			n.place[r] = int32(len(n.priced))
		}
	}
	if len(n.priced) == 0 || len(n.priced) > mostLeaping {
		return false
	}
	for j, r := range n.priced {
		p := &m.pools[r]
		n.step[j] = -p.capacity
		for k, i := range p.index {
			n.step[j] += p.cost[k] * m.tenants[i].want
		}
	}
	return true
}

// hessian adds up H.
func (m *Market) hessian(alpha float64) {
	n := &m.newton
	k := len(n.priced)
	clear(n.h[:k*k])
	for i := range m.tenants {
		t := &m.tenants[i]
		if !(t.want > t.lo && t.want < t.hi && t.path > 0) {
			continue
		}
		gain := t.want / (alpha * t.path)
		for _, u := range m.row(i) {
			for _, v := range m.row(i) {
				if a, b := int(n.place[u.pool]), int(n.place[v.pool]); a > 0 && b > 0 && b <= a {
					n.h[(a-1)*k+b-1] += u.cost * v.cost * gain
				}
			}
		}
	}
}

// walk sets the prices to those after a part of the step.
func (m *Market) walk(length float64) {
	n := &m.newton
	for j, r := range n.priced {
		price := n.start[j] + length*n.step[j]
		if price < rounding*n.start[j] {
			price = 0
		}
		m.pools[r].price = price
	}
}

// slopeAlong is Σ d·(load − C) at the present prices.
func (m *Market) slopeAlong(alpha float64) (sum float64) {
	n := &m.newton
	for j, r := range n.priced {
		sum -= n.step[j] * m.pools[r].capacity
	}
	for i := range m.tenants {
		along := 0.0
		for _, u := range m.row(i) {
			if j := n.place[u.pool]; j > 0 {
				along += u.cost * n.step[j-1]
			}
		}
		if along != 0 {
			sum += along * m.tenants[i].at(m.path(i), alpha)
		}
	}
	return sum
}

// cholesky solves h·d = y for the symmetric h, given by the rows of its lower half,
// overwriting both; y becomes d. A row that is 0, of a pool without a tenant that
// moves, gets d = 0. It reports whether d is finite.
func cholesky(h, y []float64) bool {
	n := len(y)
	for k := range n {
		row := h[k*n : (k+1)*n]
		if row[k] == 0 {
			row[k], y[k] = 1, 0
		}
		row[k] *= 1 + damping
		for j := range k + 1 {
			other, sum := h[j*n:(j+1)*n], row[j]
			for m := range j {
				sum -= row[m] * other[m]
			}
			if j < k {
				row[j] = sum / other[j]
			} else {
				row[k] = math.Sqrt(max(sum, damping*row[k]))
			}
		}
	}
	for k := range n {
		for j := range k {
			y[k] -= h[k*n+j] * y[j]
		}
		y[k] /= h[k*n+k]
	}
	finite := true
	for k := n - 1; k >= 0; k-- {
		for j := k + 1; j < n; j++ {
			y[k] -= h[j*n+k] * y[j]
		}
		y[k] /= h[k*n+k]
		finite = finite && !math.IsNaN(y[k]) && !math.IsInf(y[k], 0)
	}
	return finite
}
