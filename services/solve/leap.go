package solve

import (
	"math"

	"github.com/titrate/titrate/control/fairshare"
)

// mostLeaping is how many priced pools a leap takes on: its work grows with the
// cube.
const mostLeaping = 400

// damping keeps the equations of a leap solvable where pools are nearly alike; it
// bends the step by as little.
const damping = 1e-10

// leap moves all prices at once, by Newton's step for the loads of the priced pools:
//
//	H·d = load − C,   H_rs = −∂load_r/∂p_s = Σ_i a_ri·a_si·x_i/(α·q_i)
//
// over the tenants that are between their bounds; a price that would turn negative
// stops it at 0 and leaves. The market moves one price at a time, which takes long
// where the price of one pool can stand for another's: the leap trades them at once
// and the market goes on from there. It changes where the market starts, not where
// it ends.
func (p *Problem) leap(capacity []float64, bids []fairshare.Demand, o *outcome) {
	place := make([]int, len(p.Pools)) // of a pool among the priced ones, from 1
	var priced []int
	for r, price := range o.price {
		if price > 0 && !math.IsInf(price, 1) {
			priced = append(priced, r)
			place[r] = len(priced)
		}
	}
	if len(priced) == 0 || len(priced) > mostLeaping {
		return
	}
	slope, step := make([][]float64, len(priced)), make([]float64, len(priced))
	load := p.load(o.shares)
	for k, r := range priced {
		slope[k], step[k] = make([]float64, len(priced)), load[r]-capacity[r]
	}
	p.slopes(slope, place, bids, o)
	if !cholesky(slope, step) {
		return
	}
	length := 1.0
	for k, r := range priced {
		if step[k] < 0 {
			length = math.Min(length, -o.price[r]/step[k])
		}
	}
	for k, r := range priced {
		price := o.price[r] + length*step[k]
		if price < rounding*o.price[r] {
			price = 0
		}
		o.price[r] = price
	}
}

// slopes adds up H for the pools that have a place.
func (p *Problem) slopes(h [][]float64, place []int, bids []fairshare.Demand, o *outcome) {
	for i := range p.Tenants {
		x, path := o.shares[i], 0.0
		for _, u := range p.Tenants[i].Uses {
			path += u.Cost * o.price[u.Pool]
		}
		if !(x > bids[i].Guaranteed && x < bids[i].Cap && path > 0) {
			continue
		}
		for _, u := range p.Tenants[i].Uses {
			for _, v := range p.Tenants[i].Uses {
				if a, b := place[u.Pool], place[v.Pool]; a > 0 && b > 0 {
					h[a-1][b-1] += u.Cost * v.Cost * x / (p.Alpha * path)
				}
			}
		}
	}
}

// cholesky solves h·d = y for the symmetric h, overwriting both; y becomes d. A row
// that is 0, of a pool without a tenant that moves, gets d = 0. It tells whether d is
// finite.
func cholesky(h [][]float64, y []float64) bool {
	for k := range h {
		if h[k][k] == 0 {
			h[k][k], y[k] = 1, 0
		}
		h[k][k] *= 1 + damping
		for j := range k + 1 {
			sum := h[k][j]
			for m := range j {
				sum -= h[k][m] * h[j][m]
			}
			if j < k {
				h[k][j] = sum / h[j][j]
			} else {
				h[k][k] = math.Sqrt(math.Max(sum, damping*h[k][k]))
			}
		}
	}
	for k := range h {
		for j := range k {
			y[k] -= h[k][j] * y[j]
		}
		y[k] /= h[k][k]
	}
	finite := true
	for k := len(h) - 1; k >= 0; k-- {
		for j := k + 1; j < len(h); j++ {
			y[k] -= h[j][k] * y[j]
		}
		y[k] /= h[k][k]
		finite = finite && !math.IsNaN(y[k]) && !math.IsInf(y[k], 0)
	}
	return finite
}
