// Package comparison runs our laws and others on the same scenarios: ways to hold one limit over several
// gateways, and laws of a queue in front of HTTP clients. docs/comparison.md has its tables.
package comparison

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/papers/chemical"
	"github.com/titrate/titrate/papers/markdown"
	"github.com/titrate/titrate/papers/reaction"
)

const (
	gateways = 10
	limit    = 1000. // requests/s over all
	tick     = .005  // s
	late     = 10    // ticks, one-way delay between gateways: 50 ms
	every    = 10    // ticks between two messages: 50 ms
	depth    = 5.    // requests, the bucket of a gateway
)

// splitter is a way to hold the limit. Requests that do not pass at once are refused.
type splitter interface {
	// step advances by a tick in which requests arrive at each gateway. It returns how many pass at each.
	// received are the messages of all gateways as they arrive now, late by the delay.
	step(arrived []float64, received [][3]float64) (passed []float64)
	// publish returns the gateways' messages.
	publish() [][3]float64
}

// scenario is the offered rate at gateway i at time t, requests/s.
type scenario struct {
	name string
	load func(i int, t float64) float64
}

var scenarios = []scenario{
	{"even, 2×", func(int, float64) float64 { return 200 }},
	{"even, 0.8×", func(int, float64) float64 { return 80 }},
	{"one gateway, 2×", func(i int, _ float64) float64 { return map[bool]float64{true: 2000}[i == 0] }},
	{"6:3:1, 2×", func(i int, _ float64) float64 { return []float64{1200, 600, 200, 0, 0, 0, 0, 0, 0, 0}[i] }},
	{"moves each 5 s, 0.9×", func(i int, t float64) float64 {
		return map[bool]float64{true: 900}[int(t/5)%gateways == i]
	}},
	{"half joins at 20 s, 2×", func(i int, t float64) float64 { return map[bool]float64{true: 400}[i < 5 || t > 20] }},
}

// outcome of a scenario: the part of possible requests that passed, the highest second over the limit, and the
// part refused while the demand was below the limit.
type outcome struct{ use, over, refused float64 }

// play runs a scenario for 60 s with Poisson arrivals; the first 5 s count only for the highest second.
func play(s splitter, c scenario) (o outcome) {
	rng := rand.New(rand.NewPCG(4, 2))
	history := make([][][3]float64, late+1)
	for k := range history {
		history[k] = make([][3]float64, gateways)
	}
	passed, could, second, offered := 0., 0., 0., 0.
	var ring [int(1 / tick)]float64
	arrived := make([]float64, gateways)
	bucket := limit / gateways // the rest of a central bucket of the same depth
	for k := range int(60 / tick) {
		t, sum, all := float64(k)*tick, 0., 0.
		for i := range arrived {
			arrived[i] = float64(poisson(rng, c.load(i, t)*tick))
			all += arrived[i]
		}
		for _, v := range s.step(arrived, history[(k+1)%(late+1)]) {
			sum += v
		}
		if k%every == 0 {
			history[k%(late+1)] = s.publish()
		} else {
			history[k%(late+1)] = history[(k+late)%(late+1)]
		}
		bucket = math.Min(bucket+limit*tick, limit/gateways)
		central := math.Min(all, math.Floor(bucket))
		bucket -= central
		slot := k % len(ring)
		second += sum - ring[slot]
		ring[slot] = sum
		o.over = math.Max(o.over, 100*(second/limit-1))
		if t >= 5 {
			passed, could, offered = passed+sum, could+central, offered+all
		}
	}
	o.use = 100 * passed / could
	if offered < limit*55 {
		o.refused = 100 * math.Max(0, 1-passed/offered)
	}
	return o
}

func poisson(rng *rand.Rand, mean float64) (n int) {
	for l, p := math.Exp(-mean), rng.Float64(); p > l; p *= rng.Float64() {
		n++
	}
	return n
}

// buckets are token buckets whose rates something sets.
type buckets struct {
	rate, level [gateways]float64
	demand      [gateways]float64 // measured over a second
}

func (b *buckets) take(arrived []float64) []float64 {
	out := make([]float64, gateways)
	for i, a := range arrived {
		b.demand[i] += (a/tick - b.demand[i]) * tick
		b.level[i] = math.Min(b.level[i]+b.rate[i]*tick, math.Max(depth, b.rate[i]*.05))
		out[i] = math.Min(a, math.Floor(b.level[i]))
		b.level[i] -= out[i]
	}
	return out
}

// static gives each gateway its part.
type static struct{ buckets }

func (s *static) step(arrived []float64, _ [][3]float64) []float64 {
	for i := range s.rate {
		s.rate[i] = limit / gateways
	}
	return s.take(arrived)
}
func (s *static) publish() [][3]float64 { return make([][3]float64, gateways) }

// proportional gives each gateway the part that its demand has in all demand (flow
// proportional share, for open demand).
type proportional struct{ buckets }

func (s *proportional) step(arrived []float64, received [][3]float64) []float64 {
	for i := range s.rate {
		sum := s.demand[i]
		for j := range received {
			if j != i {
				sum += received[j][0]
			}
		}
		s.rate[i] = limit * s.demand[i] / math.Max(1, math.Max(sum, 1e-9))
		if sum < 1 {
			s.rate[i] = limit / gateways
		}
	}
	return s.take(arrived)
}

func (s *proportional) publish() [][3]float64 {
	out := make([][3]float64, gateways)
	for i, d := range s.demand {
		out[i][0] = d
	}
	return out
}

// aimd raises each gateway's rate by 5/s per message while all together pass less than the
// limit, and cuts it by a tenth otherwise.
type aimd struct {
	buckets
	sent [gateways]float64
	k    int
}

func (s *aimd) step(arrived []float64, received [][3]float64) []float64 {
	if s.k++; s.k%every == 0 {
		for i := range s.rate {
			sum := s.sent[i]
			for j := range received {
				if j != i {
					sum += received[j][0]
				}
			}
			if sum < limit {
				s.rate[i] = math.Min(limit, s.rate[i]+5)
			} else {
				s.rate[i] *= .9
			}
		}
	}
	out := s.take(arrived)
	for i, v := range out {
		s.sent[i] += (v/tick - s.sent[i]) * tick / .2
	}
	return out
}

func (s *aimd) publish() [][3]float64 {
	out := make([][3]float64, gateways)
	for i, v := range s.sent {
		out[i][0] = v
	}
	return out
}

// published is the paper's controller with Table 1; a request waits in it for a second.
type published struct {
	laws [gateways]chemical.Controller
	out  [gateways]float64
}

func newPublished() *published {
	s, p := &published{}, reaction.Table1()
	p.K5 = .1
	for i := range s.laws {
		s.laws[i] = chemical.NewController(p)
	}
	return s
}

func (s *published) step(arrived []float64, received [][3]float64) []float64 {
	out := make([]float64, gateways)
	for i := range s.laws {
		sum := 0.
		for j := range received {
			if j != i {
				sum += received[j][0]
			}
		}
		s.out[i] = s.laws[i].Step(tick, arrived[i]/tick, sum)
		out[i] = s.out[i] * tick
	}
	return out
}

func (s *published) publish() [][3]float64 {
	out := make([][3]float64, gateways)
	for i, v := range s.out {
		out[i][0] = v
	}
	return out
}

// announced is the product's controller, as a policer with φ = 0.25.
type announced struct {
	laws [gateways]drc.Controller
}

func newAnnounced() *announced {
	s := &announced{}
	for i := range s.laws {
		s.laws[i] = drc.New(drc.Params{Rate: limit, Weight: 1, TotalWeight: gateways, Replicas: gateways,
			Guarantee: drc.DefaultGuarantee, Lag: (late + 2.5*every) * tick, Period: every * tick, Police: true})
	}
	return s
}

func (s *announced) step(arrived []float64, received [][3]float64) []float64 {
	out := make([]float64, gateways)
	for i := range s.laws {
		var o drc.Sums
		for j := range received {
			if j != i {
				o.Claims, o.Active, o.Unsaturated = o.Claims+received[j][0], o.Active+received[j][1],
					o.Unsaturated+received[j][2]
			}
		}
		out[i] = s.laws[i].Step(tick, arrived[i], o)
	}
	return out
}

func (s *announced) publish() [][3]float64 {
	out := make([][3]float64, gateways)
	for i := range s.laws {
		c := s.laws[i].Publish()
		out[i] = [3]float64{c.Claim, c.Active, c.Unsaturated}
	}
	return out
}

// central asks one bucket for every request: exact, and a round trip of 100 ms for each. With
// owners' buckets one of the ten gateways has the bucket of a key. The decisions are the same,
// and the nine requests of ten that arrive elsewhere take the round trip.
type central struct{ level float64 }

func (s *central) step(arrived []float64, _ [][3]float64) []float64 {
	out := make([]float64, gateways)
	s.level = math.Min(s.level+limit*tick, limit/gateways)
	for i, a := range arrived {
		out[i] = math.Min(a, math.Floor(s.level))
		s.level -= out[i]
	}
	return out
}
func (s *central) publish() [][3]float64 { return make([][3]float64, gateways) }

// contender is a way to split with its name.
type contender struct {
	name string
	make func() splitter
}

var contenders = []contender{
	{"announced claims (ours)", func() splitter { return newAnnounced() }},
	{"the paper's controller", func() splitter { return newPublished() }},
	{"static split", func() splitter { return &static{} }},
	{"central bucket (100 ms per request), owners' buckets (90 ms)", func() splitter { return &central{} }},
	{"proportional to demand", func() splitter { return &proportional{} }},
	{"AIMD", func() splitter { return &aimd{} }},
}

// Limits is the table of ways to hold one limit.
func Limits() string {
	outcomes := map[string]outcome{}
	for _, who := range contenders {
		for _, c := range scenarios {
			outcomes[who.name+c.name] = play(who.make(), c)
		}
	}
	head, rows := []string{"what"}, [][]string(nil)
	for _, c := range scenarios {
		head = append(head, c.name)
	}
	for _, metric := range []string{"used", "highest second", "refused"} {
		for _, who := range contenders {
			row := []string{metric + ": " + who.name}
			for _, c := range scenarios {
				row = append(row, outcomes[who.name+c.name].cell(metric, c.name))
			}
			rows = append(rows, row)
		}
	}
	return markdown.Table(head, rows)
}

// cell is one metric of an outcome. What was refused counts only where less than the limit
// was offered.
func (o outcome) cell(metric, scenario string) string {
	switch {
	case metric == "used":
		return fmt.Sprintf("%.1f %%", o.use)
	case metric == "highest second":
		return fmt.Sprintf("%+.0f %%", o.over)
	case scenario == "even, 0.8×" || scenario == "moves each 5 s, 0.9×":
		return fmt.Sprintf("%.1f %%", o.refused)
	}
	return "–"
}
