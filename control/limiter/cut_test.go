package limiter

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/titrate/titrate/control/claims"
	"github.com/titrate/titrate/control/config"
)

// cutLoad is a kind of client: what it offers, and where.
type cutLoad struct {
	name  string
	below bool                // its limit, always
	more  func(k int) float64 // bursts beyond the slack that k gateways may admit at any time
	start func(cl *cluster, r, b float64) *source
}

func cutLoads() []cutLoad {
	poisson := func(part float64, pick func(cl *cluster) func(float64) int) func(*cluster, float64, float64) *source {
		return func(cl *cluster, r, _ float64) *source {
			return cl.source("a", "c", "api", constant(part*r), pick(cl))
		}
	}
	steady := func(part float64, pick func(cl *cluster) func(float64) int) func(*cluster, float64, float64) *source {
		return func(cl *cluster, r, b float64) *source {
			s := poisson(part, pick)(cl, r, b)
			s.steady = true
			return s
		}
	}
	uneven := func(cl *cluster) func(float64) int { return cl.weighted([]float64{6, 3, 1, 1, 1}[:len(cl.engines)]...) }
	first := func(*cluster) func(float64) int { return pinned(0) }
	moving := func(cl *cluster) func(float64) int {
		return func(t float64) int { return int(t/2) % len(cl.engines) }
	}
	none := func(int) float64 { return 0 }
	one := func(int) float64 { return 1 } // of a client that moves from one side to the other during the cut
	others := func(k int) float64 { return float64(k - 1) }
	return []cutLoad{
		{"2× 6:3:1", false, none, poisson(2, uneven)},
		{"2× pinned", false, none, poisson(2, first)},
		{"2× moving", false, one, poisson(2, moving)},
		{"10× 6:3:1", false, none, poisson(10, uneven)},
		{"0.9× moving", true, none, steady(.9, moving)},
		{"0.9× pinned", true, none, steady(.9, first)},
		{"0.9× spread", true, none, steady(.9, uneven)},
		{"bursts hopping", true, none, bursts(1.1, false)},
		{"bursts exact", true, none, bursts(1.000001, false)},
		{"1.0× moving", true, none, steady(1, moving)},
		{"2× bursts hopping", false, one, bursts(.5, false)},
		{"bursts at all", false, others, bursts(1.1, true)},
	}
}

// bursts are whole bursts, each so many times b/r after the last, at the next gateway or at all.
func bursts(every float64, all bool) func(*cluster, float64, float64) *source {
	return func(cl *cluster, r, b float64) *source {
		n, at := 0, 0
		s := cl.source("a", "c", "api", constant(1e6), func(float64) int { return at })
		s.steady = true
		s.after = func() {
			if n++; n < int(b) {
				return
			}
			n, at = 0, (at+1)%len(cl.engines)
			if !all || at == 0 {
				s.next += int64(every * b / r * 1e9)
			}
		}
		return s
	}
}

// cutResult has the results of a client while one gateway was cut off, and afterwards.
type cutResult struct {
	worst   float64 // beyond one exact bucket
	later   float64 // the same once what was admitted twice is repaid
	refused int     // after the heal, although an exact bucket had room for a request
	asked   int     // after the heal
}

// playCut has a client use a limit of k gateways, of which one is cut off from the others for 0.5 to
// 12 s.
func playCut(t *testing.T, k int, r, b float64, l cutLoad, seed uint64) (res cutResult) {
	cl := newCluster(t, k, simple(1e6, config.Queue{}, config.Limit{Name: "l", Rate: r, Burst: b}), Options{})
	cl.rng, cl.delay = rand.New(rand.NewPCG(seed, 1)), 2*ms
	for i := range k {
		cl.phases[i] = cl.rng.Int64N(50) * ms
		cl.agents[i].keys = claims.New(claims.Params{Stale: .25, Forget: 15})
	}
	l.start(cl, r, b)
	cl.run(time.Duration(2e9 * (1 + cl.rng.Float64())))
	cut, gw := time.Duration(5e8+cl.rng.Float64()*11.5e9), cl.rng.IntN(k)
	cl.isolated[gw] = true
	cl.run(cut)
	cl.isolated[gw] = false
	heal, repaid := cl.now, 2*cut+2*time.Duration(b/r*1e9)
	cl.run(repaid + 5*time.Second)
	level, last := 0., int64(0)
	for _, a := range cl.log {
		level, last = max(0, level-r*float64(a.at-last)/1e9), a.at
		known := a.at > heal+sec/4
		if a.at > heal {
			res.asked++
		}
		switch {
		case a.out.Verdict == Admit:
			level++
			res.worst = max(res.worst, level-b)
			if a.at > heal+int64(repaid) {
				res.later = max(res.later, level-b)
			}
		case level+1 <= b && known:
			res.refused++
		}
	}
	return res
}

// What two sides of a cut admit together beyond the limit is debt on both once they reach each other
// again. It is repaid, and what only one of them has used is not counted twice.
func TestCutIsRepaid(t *testing.T) {
	for _, lim := range []struct{ r, b float64 }{{5, 10}, {10, 10}, {60, 60}} {
		for _, l := range cutLoads() {
			for _, k := range []int{2, 3, 5} {
				var all cutResult
				for seed := range uint64(4) {
					one := playCut(t, k, lim.r, lim.b, l, seed)
					all.worst, all.later = max(all.worst, one.worst), max(all.later, one.later)
					all.refused, all.asked = all.refused+one.refused, all.asked+one.asked
				}
				most := 3*lim.r*.127 + float64(k) + l.more(k)*lim.b
				what := fmt.Sprintf("%v/s %v %s at %d gateways", lim.r, lim.b, l.name, k)
				t.Logf("%s: excess %.1f, later %.1f of %.1f; %d of %d refused with room", what, all.worst, all.later, most,
					all.refused, all.asked)
				if all.later > most {
					t.Errorf("%s: excess %.1f after the heal, want %.1f at most", what, all.later, most)
				}
				if l.below && float64(all.refused) > .04*float64(all.asked) {
					t.Errorf("%s: %d of %d requests below the limit refused after the heal", what, all.refused, all.asked)
				}
			}
		}
	}
}

// Whatever the order of first contacts, cuts, heals and agents that restart, the mean is the rate:
// what is admitted too much does not add up.
func TestPropertyMeanHolds(t *testing.T) {
	const r, b, minutes = 60, 60, 2
	for seed := range uint64(8) {
		k := 2 + int(seed%4)
		cl := newCluster(t, k, simple(1e6, config.Queue{}, config.Limit{Name: "l", Rate: r, Burst: b}), Options{})
		cl.rng, cl.delay = rand.New(rand.NewPCG(seed, 7)), 2*ms
		for i := range k {
			cl.agents[i].keys = claims.New(claims.Params{Stale: .25, Forget: 15})
		}
		begin := cl.now
		demand := constant([]float64{2, 10}[seed/4%2] * r)
		client := cl.source("a", "c", "api", demand, cl.weighted([]float64{6, 3, 1, 1, 1}[:k]...))
		for cl.now < begin+minutes*60*sec {
			cl.run(time.Duration(cl.rng.Float64() * 4e9))
			gw := cl.rng.IntN(k)
			switch cl.rng.IntN(4) {
			case 0: // its agent restarts
				cl.agents[gw].keys = claims.New(claims.Params{Stale: .25, Forget: 15})
				cl.agents[gw].life++
			default:
				cl.isolated[gw] = true
				cl.run(time.Duration(5e8 + cl.rng.Float64()*5e9))
				cl.isolated[gw] = false
			}
		}
		cl.run(20 * time.Second)
		admitted := float64(cl.tally(begin, cl.now, of(client)).admitted)
		if most := r*float64(cl.now-begin)/1e9 + 2*b + 3*r*.127 + float64(k); admitted > most {
			t.Errorf("seed %d, %d gateways: %.0f admitted in %d minutes, want %.0f at most", seed, k, admitted, minutes, most)
		}
		if least := .9 * r * float64(cl.now-begin) / 1e9; admitted < least {
			t.Errorf("seed %d, %d gateways: %.0f admitted of %.0f", seed, k, admitted, least)
		}
	}
}
