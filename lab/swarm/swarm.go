package swarm

import (
	"math"
	"math/rand/v2"

	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/limiter"
)

// Params describe a swarm.
type Params struct {
	Rate      float64 // r, requests/s that all hold together, > 0
	Replicas  int     // N ≥ 1
	Delay     float64 // τ, seconds one way, ≥ 0
	Guarantee float64 // φ, see drc.Params
	Police    bool    // no queue
	Seed      uint64
}

const (
	// Period is P in seconds, the agents' default.
	Period = 0.05
	// longestLag bounds δ in seconds: beyond it the agents call a mesh broken.
	longestLag = 2.0
)

// Lag returns δ in seconds: the time after which every replica has received a published claim.
func (p Params) Lag() float64 { return min(max(2*Period, p.Delay+Period), longestLag) }

// Tick is h in seconds: the limiter's 5 ms, and up to 25 ms where the lag is long.
func (p Params) Tick() float64 { return min(max(p.Lag()/10, 0.005), 0.025) }

// Swarm is a running one.
type Swarm struct {
	p     Params
	h     float64
	step  int
	nodes []gateway
	total drc.Claim // sum of the received claims
	news  []claim   // published and not yet received, oldest first
	late  int       // τ in steps
	every int       // P in steps
	rng   *rand.Rand
	loads []float64

	// Passed, Refused and Offered count requests per gateway since the start.
	Passed, Refused, Offered []float64
}

// claim is a claim on its way.
type claim struct {
	due, from int
	drc.Claim
}

// New makes a swarm at rest, without load.
func New(p Params) *Swarm {
	n := p.Replicas
	s := &Swarm{p: p, h: p.Tick(), rng: rand.New(rand.NewPCG(p.Seed, uint64(n))), nodes: make([]gateway, n),
		loads:  make([]float64, n),
		Passed: make([]float64, n), Refused: make([]float64, n), Offered: make([]float64, n)}
	s.late, s.every = int(math.Round(p.Delay/s.h)), max(1, int(math.Round(Period/s.h)))
	params := drc.Params{Rate: p.Rate, Weight: 1, TotalWeight: float64(n), Replicas: float64(n), Guarantee: p.Guarantee,
		Lag: p.Lag(), Period: Period, Bucket: limiter.Bucket(p.Rate/float64(n), p.Police)}
	for i := range s.nodes {
		s.nodes[i] = newGateway(params, p.Police)
	}
	return s
}

// Load sets the mean of the requests/s that gateway i is offered.
func (s *Swarm) Load(i int, rate float64) { s.loads[i] = rate }

// Now is the time in seconds since the start.
func (s *Swarm) Now() float64 { return float64(s.step) * s.h }

// InForce is the rate in force at gateway i, requests/s.
func (s *Swarm) InForce(i int) float64 { return s.nodes[i].ctl.Rate() }

// Step lets one tick pass and returns how many requests passed in it.
func (s *Swarm) Step() (passed float64) {
	s.step++
	s.deliver()
	now := s.Now()
	for i := range s.nodes {
		g := &s.nodes[i]
		n := poisson(s.rng, s.loads[i]*s.h)
		others := drc.Sums{Claims: max(0, s.total.Claim-g.announced.Claim),
			Active:      max(0, s.total.Active-g.announced.Active),
			Unsaturated: max(0, s.total.Unsaturated-g.announced.Unsaturated)}
		ok, no := g.step(now, s.h, n, others)
		s.Offered[i], s.Passed[i], s.Refused[i] = s.Offered[i]+n, s.Passed[i]+ok, s.Refused[i]+no
		passed += ok
		if (s.step+i)%s.every == 0 {
			s.news = append(s.news, claim{s.step + s.late, i, g.ctl.Publish()})
		}
	}
	return passed
}

// deliver delivers to all gateways the claims published τ ago. Now and then it recomputes the sums, so that
// rounding errors do not grow.
func (s *Swarm) deliver() {
	for len(s.news) > 0 && s.news[0].due <= s.step {
		m := s.news[0]
		s.news = s.news[1:]
		was := &s.nodes[m.from].announced
		s.total.Claim += m.Claim.Claim - was.Claim
		s.total.Active += m.Active - was.Active
		s.total.Unsaturated += m.Unsaturated - was.Unsaturated
		*was = m.Claim
	}
	if s.step%1000 == 0 {
		s.total = drc.Claim{}
		for i := range s.nodes {
			h := s.nodes[i].announced
			s.total.Claim, s.total.Active, s.total.Unsaturated = s.total.Claim+h.Claim, s.total.Active+h.Active,
				s.total.Unsaturated+h.Unsaturated
		}
	}
}

// poisson draws a number with the given mean; from 50 on by its normal limit.
func poisson(rng *rand.Rand, mean float64) float64 {
	if mean >= 50 {
		return max(0, math.Round(mean+math.Sqrt(mean)*rng.NormFloat64()))
	}
	if mean <= 0 {
		return 0
	}
	n, p := 0.0, rng.Float64()
	for limit := math.Exp(-mean); p > limit; n++ {
		p *= rng.Float64()
	}
	return n
}
