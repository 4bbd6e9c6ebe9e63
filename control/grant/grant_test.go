package grant

import (
	"fmt"
	"testing"
)

const way = 250_000 // ns one way, two gateways of one site

func anywhere(w *world) func() int { return func() int { return w.rng.IntN(len(w.gates)) } }

// TestAgainstCentralBucket holds the claim of this package: over limits, gateways and
// loads, granted tokens admit what one central bucket admits.
func TestAgainstCentralBucket(t *testing.T) {
	limits := []Params{
		{Rate: 1, Burst: 5 * Token}, {Rate: 10, Burst: 10 * Token}, {Rate: 100, Burst: 100 * Token},
		{Rate: 1000, Burst: 1000 * Token}, {Rate: 100, Burst: 5 * Token},
	}
	offered, wrong := 0, 0
	for _, p := range limits {
		for _, n := range []int{3, 30} {
			for _, load := range []string{"half", "full", "over", "flood", "hop"} {
				w := newWorld(p, n, way, 7)
				until := int64(15 * second)
				switch load {
				case "half":
					w.poisson(p.Rate/2, until, anywhere(w))
				case "full":
					w.poisson(p.Rate, until, anywhere(w))
				case "over":
					w.poisson(2*p.Rate, until, anywhere(w))
				case "flood":
					w.poisson(20*p.Rate, until/4, anywhere(w))
				case "hop":
					burst := int(p.Burst / Token)
					w.bursts(burst, max(second/2, w.p.time(p.Burst)), until)
				}
				w.run(until + second)
				over, mean := excess(p, w.admitted), total(w.admitted)/max(1, total(w.central))
				name := fmt.Sprintf("%v/s burst %v, %d gateways, %s", p.Rate, p.Burst/Token, n, load)
				t.Logf("%-44s wrongful %d of %d, excess %+.2f, mean %.4f, messages/admitted %.2f, p99 %.2f ms",
					name, w.wrongful, w.offered, over, mean, float64(w.messages)/max(1, total(w.admitted)),
					float64(w.p99())/millisecond)
				if over > 1+8*p.Rate*way/second {
					t.Errorf("%s: excess %.2f", name, over)
				}
				if load == "half" || load == "hop" {
					offered, wrong = offered+w.offered, wrong+w.wrongful
				}
				if mean < 0.99 && total(w.central)-total(w.admitted) > 2 || mean > 1.02 {
					t.Errorf("%s: mean %.4f of the central bucket", name, mean)
				}
			}
		}
	}
	t.Logf("refused wrongly: %d of %d", wrong, offered)
	if float64(wrong) > 0.001*float64(offered) {
		t.Errorf("refused wrongly: %d of %d", wrong, offered)
	}
}
