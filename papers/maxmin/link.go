package maxmin

import "math"

// Packet is a control packet of the distributed law. A source sends one every
// interval along its path and gets it back.
type Packet struct {
	Rate    float64 // a_i, the source's rate, units/s
	Weight  float64 // w_i
	Minimum float64 // m_i, units/s
	Sent    float64 // cost units sent since the last packet
	Fair    float64 // the least fair rate of the links passed; +Inf at first
}

// Link is the link algorithm of Ryu, Cho and Chong. It has one fair rate for all sources, from the queue alone,
// and an estimate of their number, without any state per source. The product's coordinator knows the demands
// and uses the exact [Fill] instead.
//
//	f[k] = −C_P·e[k] − C_I·Σ e[n],  e = q − qT                       (1)
//	C_P = A/|Q|w,  C_I = T·B/|Q|w
//	|Q|w^l = Σ_packets Sent/(W·a)·w·1{a − m ≥ δ·w·f}                 (19)
//	|Q|w   = sat[λ·|Q|w + (1−λ)·|Q|w^l] to [min w, Σw]               (20)
//
//	paper        here               paper        here
//	T, W         Period, Window     δ, λ         Margin, Memory
//	q_T          Target             A, B         A, B
//
// Corrections. The discrete C_I is T times the continuous one. (1) is computed
// by differences, f += −C_P·Δe − C_I·e: the same at constant |Q|w, but a new
// estimate then changes the pace and does not make f jump. f is kept within
// [0, Max], which also stops the integral: an idle link would wind up without
// bound. (19) counts the cost really sent: the paper's N_b + S_CP belongs to
// packets clocked by bytes, which never come from a source at a rate near 0 and
// so lock it there. (20) saturates at the least weight, not at 1, and at Σw as
// the same sum without its condition shows it.
//
// Bad numbers: NaN and negative measurements count as 0, a
// queue above 1e15 as 1e15; a packet without rate
// or with bad numbers gets its feedback and counts for nothing.
type Link struct {
	A, B   float64 // 1/s, 1/s²; see MixGains, BestGains
	Period float64 // T, seconds between two Steps, > 0
	Window float64 // W in seconds; at least the spacing of control packets
	Target float64 // q_T, cost units; it keeps the link busy through dips
	Max    float64 // largest fair rate, such as capacity/least weight; units/s
	Margin float64 // δ in (0,1); 0 means .9
	Memory float64 // λ in [0,1); 0 means .9. Larger is smoother and slower

	fair, excess float64
	elapsed      float64
	bound, all   float64 // Σ of (19) in this window: bottlenecked here, everybody
	least        float64 // least weight in this window
	count        float64 // |Q|w
	total        float64 // Σw as seen, with the memory of (20)
	started      bool
}

// Step is called every Period with the queue (cost units) and returns the fair rate f.
func (l *Link) Step(queued float64) float64 {
	e := min(sane(queued), largest) - min(sane(l.Target), largest)
	if !l.started {
		l.started, l.excess = true, e
	}
	a, b, period := sane(l.A), sane(l.B), sane(l.Period)
	l.fair -= (a*(e-l.excess) + b*period*e) / l.Count()
	l.fair = min(max(l.fair, 0), sane(l.Max))
	l.excess = e
	if l.elapsed += period; l.elapsed >= l.Window*(1-1e-9) {
		l.estimate()
	}
	return l.fair
}

// estimate closes a window (20).
func (l *Link) estimate() {
	memory := l.Memory
	if !(memory > 0 && memory < 1) {
		memory = 0.9
	}
	if l.all > 0 { // a window without packets says nothing
		bound, all := l.bound/l.elapsed, l.all/l.elapsed
		if l.total == 0 {
			l.total = all
		}
		l.total = memory*l.total + (1-memory)*all
		l.count = memory*l.Count() + (1-memory)*bound
		l.count = min(max(l.count, l.least), max(l.total, l.least))
	}
	l.elapsed, l.bound, l.all, l.least = 0, 0, 0, 0
}

// Count is |Q|w, the estimated sum of the weights of the flows that this link limits.
// Before anything is known it is 1.
func (l *Link) Count() float64 {
	if l.count > 0 {
		return l.count
	}
	return 1
}

// Fair is f, units/s per unit of weight.
func (l *Link) Fair() float64 { return l.fair }

// Pass lets a control packet pass: it is counted, and its fair rate lowered to
// the link's.
func (l *Link) Pass(p *Packet) {
	p.Fair = min(p.Fair, l.fair)
	rate, weight, sent := sane(p.Rate), sane(p.Weight), sane(p.Sent)
	if rate < smallest || weight < smallest || math.IsInf(rate+weight+sent, 1) {
		return
	}
	margin := l.Margin
	if !(margin > 0 && margin < 1) {
		margin = 0.9
	}
	part := sent / rate * weight
	l.all += part
	if rate-sane(p.Minimum) >= margin*weight*l.fair {
		l.bound += part
	}
	if l.least == 0 || weight < l.least {
		l.least = weight
	}
}

// smallest and largest bound rates, weights and queues.
const smallest, largest = 1e-15, 1e15

// sane maps NaN and negative numbers to 0.
func sane(v float64) float64 {
	if !(v > 0) {
		return 0
	}
	return v
}
