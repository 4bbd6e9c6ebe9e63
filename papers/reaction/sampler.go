package reaction

import "math"

// Source gives uniform random numbers in [0,1); *rand.Rand is one.
type Source interface{ Float64() float64 }

// Sampler draws exact trajectories of the jump process behind a network
// (Gillespie's direct method): single molecules, exponential waiting times.
//
// With volume Ω a molecule counts for an amount 1/Ω. A reaction of order o
// happens at rate Ω^(1−o)·k·Π n(n−1)…, an input at Ω·p; as Ω grows the amounts
// follow Vessel.Step with deviations of order 1/√Ω.
type Sampler struct {
	net    *Network
	k, p   []float64
	n      []int64
	fired  []int64
	rate   []float64 // propensities: reactions, then inputs
	volume float64
	random Source
}

// NewSampler starts from the amounts, rate constants and inputs of a vessel,
// which is not touched. The volume must be positive, or counts as 1.
func NewSampler(v *Vessel, volume float64, random Source) *Sampler {
	if volume = clean(volume); volume == 0 {
		volume = 1
	}
	s := &Sampler{net: v.net, volume: volume, random: random,
		k: make([]float64, len(v.k)), p: append([]float64(nil), v.p...),
		n: make([]int64, len(v.c)), fired: make([]int64, len(v.k)), rate: make([]float64, len(v.k)+len(v.p))}
	for i, c := range v.c {
		s.n[i] = int64(math.Round(min(c*volume, largest)))
	}
	for r, k := range v.k {
		s.k[r] = k * math.Pow(volume, float64(1-len(v.net.rules[r].consumes)))
	}
	return s
}

// SetInput opens an input to rate p, amount/s.
func (s *Sampler) SetInput(in Input, p float64) { s.p[in] = clean(p) }

// Amount returns the amount of a species: its molecules divided by the volume.
func (s *Sampler) Amount(x Species) float64 { return float64(s.n[x]) / s.volume }

// Fired returns how often a reaction has happened, as an amount.
func (s *Sampler) Fired(r Reaction) float64 { return float64(s.fired[r]) / s.volume }

// Run lets span seconds pass and returns the number of events. The waiting time
// has no memory, so that cutting it at the end of the span is exact.
func (s *Sampler) Run(span float64) (events int) {
	for span = clean(span); ; events++ {
		total := s.propensities()
		if !(total > 0) {
			return events
		}
		if span += math.Log(1-s.random.Float64()) / total; span < 0 {
			return events
		}
		s.fire(s.pick(total))
	}
}

// propensities fills rate and returns its sum.
func (s *Sampler) propensities() (total float64) {
	for r := range s.k {
		a := s.k[r]
		list := s.net.rules[r].consumes
		for j, x := range list {
			left := s.n[x]
			for _, y := range list[:j] {
				if y == x {
					left--
				}
			}
			a *= float64(max(left, 0))
		}
		s.rate[r] = a
		total += a
	}
	for j, p := range s.p {
		s.rate[len(s.k)+j] = p * s.volume
		total += p * s.volume
	}
	return total
}

// pick draws an event in proportion to its propensity.
func (s *Sampler) pick(total float64) int {
	u, last := s.random.Float64()*total, 0
	for e, a := range s.rate {
		if a > 0 {
			if last = e; u < a {
				return e
			}
		}
		u -= a
	}
	return last // rounding of the sum
}

// fire lets event e happen once.
func (s *Sampler) fire(e int) {
	if e >= len(s.k) {
		s.n[s.net.feeds[e-len(s.k)].into]++
		return
	}
	s.fired[e]++
	for _, x := range s.net.rules[e].consumes {
		s.n[x]--
	}
	for _, x := range s.net.rules[e].produces {
		s.n[x]++
	}
}
