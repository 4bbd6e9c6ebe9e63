package pricing

import "math"

// maxSteps bounds the search for one pool's price; the bracket halves in the
// logarithm, so that it is met only if numbers are absurd.
const maxSteps = 200

// clear sets the pool's price so that its load meets its capacity while the
// other prices stay, and updates the path prices of its tenants.
func (m *Market) clear(p *offer, alpha float64) {
	if p.shut {
		return
	}
	old := p.price
	if load, _ := m.load(p, old, 0, alpha); load <= p.capacity {
		m.move(p, 0)
		return
	}
	m.move(p, m.price(p, old, alpha))
}

// move changes the pool's price and its tenants' path prices.
func (m *Market) move(p *offer, price float64) {
	for k, i := range p.index {
		m.tenants[i].path = max(0, m.tenants[i].path+p.cost[k]*(price-p.price))
	}
	p.price = price
}

// load is Σ a·x of the pool at a trial price, and −p·(dload/dp): both are what
// Newton's step in logarithms needs. old is the price in the path prices.
func (m *Market) load(p *offer, old, price, alpha float64) (load, slope float64) {
	for k, i := range p.index {
		t := &m.tenants[i]
		q := t.path + p.cost[k]*(price-old)
		if t.path <= p.cost[k]*old*(1+1e-15) { // nothing else on the path: no cancellation
			q = p.cost[k] * price
		}
		x := t.at(q, alpha)
		load += p.cost[k] * x
		if x > t.lo && x < t.hi {
			slope += p.cost[k] * x * (p.cost[k] * price / q) / alpha
		}
	}
	return load, slope
}

// price solves load(p) = capacity, given load(0) > capacity.
func (m *Market) price(p *offer, old, alpha float64) float64 {
	price := old
	if price == 0 {
		price = m.guess(p, alpha)
	}
	lo, hi := 0.0, math.Inf(1)
	for range maxSteps {
		load, slope := m.load(p, old, price, alpha)
		if math.Abs(load-p.capacity) <= 1e-14*p.capacity {
			break
		}
		if load > p.capacity {
			lo = price
		} else {
			hi = price
		}
		next := price * math.Exp(clip(math.Log(load/p.capacity)*load/slope, 20))
		if !(next > lo && next < hi) { // flat, or out of the bracket
			next = between(lo, hi)
		}
		if next == price || next <= lo || next >= hi {
			return hi
		}
		price = next
	}
	return price
}

// guess is the price at which the pool would be shared if it were alone.
func (m *Market) guess(p *offer, alpha float64) float64 {
	sum := 0.0
	for k, i := range p.index {
		sum += p.cost[k] * math.Pow(m.tenants[i].weight/p.cost[k], 1/alpha)
	}
	if g := math.Pow(sum/p.capacity, alpha); g > 0 && !math.IsInf(g, 1) {
		return g
	}
	return 1
}

// between splits a bracket by ratio.
func between(lo, hi float64) float64 {
	switch {
	case math.IsInf(hi, 1):
		return max(16*lo, 1e-300)
	case lo == 0:
		return hi / 16
	default:
		return math.Sqrt(lo) * math.Sqrt(hi)
	}
}

// clip bounds v to ±limit and maps NaN to limit.
func clip(v, limit float64) float64 {
	if v < -limit {
		return -limit
	}
	if v < limit {
		return v
	}
	return limit
}
