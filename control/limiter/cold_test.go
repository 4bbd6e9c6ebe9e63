package limiter

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
)

// rushes has a client of r per second and a burst of b send a whole burst to each of k gateways that
// do not know it. It does so every b/r seconds for 30 times, and returns the worst excess over any
// window.
func rushes(t *testing.T, k int, r, b float64, seed uint64) float64 {
	cl := newCluster(t, k, simple(1e6, config.Queue{}, config.Limit{Name: "l", Rate: r, Burst: b}), Options{})
	cl.rng, cl.delay = rand.New(rand.NewPCG(seed, 1)), 2*ms
	for i := range cl.phases {
		cl.phases[i] = cl.rng.Int64N(50) * ms
	}
	cl.run(time.Second)
	client := &source{req: Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}}
	apart, begin := time.Duration(cl.rng.Int64N(60/int64(k))+1)*time.Millisecond, cl.now
	for round := range 30 {
		for gw := range k {
			for range int(b) {
				cl.ask(client, gw, cl.now)
			}
			cl.run(apart)
		}
		next := begin + int64(float64(round+1)*b/r*1e9)
		cl.run(time.Duration(next - cl.now))
	}
	return cl.excess(of(client), r, b)
}

// Gateways that do not know of each other each admit a whole burst. Each gateway counts all bursts as
// debt, in whatever order it learns of the bursts. So the bursts of the others, (k−1)·b, come once and the
// mean is r. The worst excess is the maximum over windows of any length.
func TestColdGatewaysRepay(t *testing.T) {
	for _, k := range []int{2, 3, 5, 10} {
		for _, l := range []struct{ r, b float64 }{{10, 10}, {60, 60}, {5, 10}, {5, 5}} {
			worst, most := 0., float64(k-1)*l.b+3*l.r*.127
			for seed := range uint64(max(4, 24/k)) {
				worst = max(worst, rushes(t, k, l.r, l.b, seed))
			}
			t.Logf("k=%d %v/s burst %v: excess %.1f of %.1f", k, l.r, l.b, worst, most)
			if worst > most {
				t.Errorf("k=%d %v/s burst %v: excess %.1f, want (k−1)·b and the slack, %.1f", k, l.r, l.b, worst, most)
			}
		}
	}
}
