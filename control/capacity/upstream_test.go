package capacity_test

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/capacity"
)

// service is an upstream of workers that serve one request each, the others wait
// in turn; what finds the queue full is turned away. It runs request by request.
type service struct {
	rng     *rand.Rand
	workers int
	queue   int                          // most that wait
	time    func(rng *rand.Rand) float64 // of one request's service, seconds

	stalls  float64 // mean time between stalls of a quarter of a second, seconds; 0: none
	now     float64
	busy    finishes
	waiting []float64 // arrivals
	answers capacity.Answers
}

type finish struct{ at, arrived float64 }

type finishes []finish

func (f finishes) Len() int           { return len(f) }
func (f finishes) Less(i, j int) bool { return f[i].at < f[j].at }
func (f finishes) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *finishes) Push(x any)        { *f = append(*f, x.(finish)) }
func (f *finishes) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}

// stall lets everything stand still for a quarter of a second.
func (s *service) stall(at float64) {
	for i := range s.busy {
		s.busy[i].at = max(s.busy[i].at, at) + .25
	}
}

// round offers Poisson arrivals at a rate for one period.
func (s *service) round(rate float64) capacity.Answers {
	s.answers = capacity.Answers{Span: period}
	if s.stalls > 0 && s.rng.Float64() < period/s.stalls {
		s.stall(s.now)
	}
	end := s.now + period
	for next := s.now + s.rng.ExpFloat64()/rate; next < end; next += s.rng.ExpFloat64() / rate {
		s.until(next)
		s.arrive(next)
	}
	s.until(end)
	s.now = end
	s.answers.InFlight = float64(len(s.busy) + len(s.waiting))
	return s.answers
}

func (s *service) arrive(at float64) {
	switch {
	case len(s.busy) < s.workers:
		heap.Push(&s.busy, finish{at + s.time(s.rng), at})
	case len(s.waiting) < s.queue:
		s.waiting = append(s.waiting, at)
	default:
		s.answers.Shed++
	}
}

func (s *service) until(t float64) {
	for len(s.busy) > 0 && s.busy[0].at <= t {
		f := heap.Pop(&s.busy).(finish)
		s.answers.Completed++
		s.answers.Residence += f.at - f.arrived
		if len(s.waiting) > 0 && len(s.busy) < s.workers {
			heap.Push(&s.busy, finish{f.at + s.time(s.rng), s.waiting[0]})
			s.waiting = s.waiting[1:]
		}
	}
}

func fixed(d float64) func(*rand.Rand) float64 {
	return func(*rand.Rand) float64 { return d }
}

func exponential(mean float64) func(*rand.Rand) float64 {
	return func(rng *rand.Rand) float64 { return rng.ExpFloat64() * mean }
}

// mixed is mostly quick and now and then slow: the quickest says nothing of the mean.
func mixed(quick, slow, part float64) func(*rand.Rand) float64 {
	return func(rng *rand.Rand) float64 {
		if rng.Float64() < part {
			return slow
		}
		return quick
	}
}

// course records a run, one value per round.
type course struct{ capacity, completed, waiting, shed []float64 }

// drive runs the loop against a service whose workers may change.
func drive(s *service, u *capacity.Upstream, rounds int, demand float64, workers func(k int) int) (c course) {
	given := []float64{u.Capacity(), u.Capacity()} // a lease acts a round later
	for k := range rounds {
		s.workers = workers(k)
		rate := math.Min(given[0], demand)
		a := s.round(rate)
		a.Binding = given[0] < demand
		given = append(given[1:], u.Step(a))
		c.capacity, c.completed = append(c.capacity, u.Capacity()), append(c.completed, a.Completed/period)
		c.waiting, c.shed = append(c.waiting, float64(len(s.waiting))), append(c.shed, a.Shed)
	}
	return c
}

// A capacity that is unknown, falls to half and comes back is found from its
// answers alone, whatever their times are like, for minutes on end.
func TestUpstreamIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		workers int
		mean    float64
		time    func(*rand.Rand) float64
	}{
		"small, even":   {5, .05, fixed(.05)},
		"small, uneven": {5, .05, exponential(.05)},
		"even":          {50, .05, fixed(.05)},
		"uneven":        {50, .05, exponential(.05)},
		"mixed":         {50, .05, mixed(.01, .41, .1)},
		"slow":          {200, .4, exponential(.4)},
	} {
		for _, start := range []float64{.3, 3} {
			findAndFollow(t, name, c.workers, c.mean, c.time, start)
		}
	}
}

// findAndFollow runs 500 s: the capacity is μ, half of it from 200 to 350 s, and μ
// again. The loop begins at start·μ.
func findAndFollow(t *testing.T, name string, workers int, stay float64, time func(*rand.Rand) float64, start float64) {
	const falls, returns, end = 800, 1400, 2000
	mu := float64(workers) / stay
	half := float64(workers/2) / stay
	s := &service{rng: rand.New(rand.NewPCG(1, 2)), queue: 1 << 20, time: time}
	u := &capacity.Upstream{Min: mu / 20, Max: 5 * mu, Delay: 1}
	u.Start(start * mu)
	got := drive(s, u, end, 1e9, func(k int) int {
		if k >= falls && k < returns {
			return workers / 2
		}
		return workers
	})
	use := func(from, to int, mu float64) float64 { return mean(got.completed[from:to]) / mu }
	wait := func(from, to int) float64 { return mean(got.waiting[from:to]) / mean(got.completed[from:to]) }
	settled := 0
	for k := falls; k < returns && got.capacity[k] > 1.15*half; k++ {
		settled = k + 1 - falls
	}
	t.Logf("%-14s from %.1f·μ: use %.3f wait %3.0f ms; half: after %d rounds, "+
		"use %.3f wait %3.0f ms, peak %4.0f; again: use %.3f wait %3.0f ms",
		name, start, use(200, falls, mu), 1e3*wait(200, falls), settled, use(falls+40, returns, half),
		1e3*wait(falls+40, returns),
		peak(got.waiting[falls:returns]), use(returns+100, end, mu), 1e3*wait(returns+100, end))
	if least := min(use(200, falls, mu), use(falls+40, returns, half), use(returns+100, end, mu)); least < .84 {
		t.Errorf("%s from %v: use of %.3f only", name, start, least)
	}
	if longest := max(wait(200, falls), wait(returns+100, end)); longest > .25 {
		t.Errorf("%s from %v: a standing wait of %.0f ms", name, start, 1e3*longest)
	}
	if settled > 25 || wait(falls+40, returns) > 1 {
		t.Errorf("%s from %v: the fall takes %d rounds, and leaves waits of %.0f ms", name, start, settled,
			1e3*wait(falls+40, returns))
	}
}

// An upstream that answers 503 instead of letting wait is found as well.
func TestUpstreamThatShedsIsFound(t *testing.T) {
	s := &service{rng: rand.New(rand.NewPCG(1, 2)), queue: 5, time: exponential(.05)}
	u := &capacity.Upstream{Min: 50, Max: 5000, Delay: 1}
	u.Start(2000)
	got := drive(s, u, 1000, 1e9, func(int) int { return 50 })
	use, lost := mean(got.completed[200:])/1000, mean(got.shed[200:])/period/1000
	t.Logf("use %.3f, turned away %.4f of the capacity", use, lost)
	if use < .85 || lost > .07 {
		t.Errorf("use %.3f, turned away %.4f of the capacity", use, lost)
	}
}

// An upstream that stands still for a quarter of a second every two seconds serves
// nine tenths of what it could, and is not taken for a much smaller one.
func TestUpstreamThatStallsIsFound(t *testing.T) {
	for _, workers := range []int{10, 50} {
		s := &service{rng: rand.New(rand.NewPCG(1, 2)), queue: 1 << 20, time: exponential(.05), stalls: 2}
		u := &capacity.Upstream{Min: 10, Max: 5000, Delay: 1}
		u.Start(2000)
		mu := float64(workers) / .05 * (1 - .25/2)
		got := drive(s, u, 1200, 1e9, func(int) int { return workers })
		use, wait := mean(got.completed[200:])/mu, mean(got.waiting[200:])/mean(got.completed[200:])
		t.Logf("%d workers: use %.3f of what is there, wait %.0f ms", workers, use, 1e3*wait)
		if use < .75 || wait > .5 {
			t.Errorf("%d workers: use %.3f, wait %.0f ms", workers, use, 1e3*wait)
		}
	}
}

// Upstreams of all kinds, from far below and far above what they serve: none is taken
// down to the floor, none gets a backlog that grows.
func TestUpstreamsOfAllKinds(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 7))
		workers, stay := 3+rng.IntN(40), .01+.4*rng.Float64()*rng.Float64()
		s := &service{rng: rng, queue: 1 << 20, time: []func(*rand.Rand) float64{fixed(stay),
			exponential(stay)}[seed%2]}
		mu := float64(workers) / stay
		if seed%3 == 0 {
			s.stalls = 2
			mu *= 1 - .25/2
		}
		u := &capacity.Upstream{Min: mu / 30, Max: 20 * mu, Delay: 1}
		start := []float64{.2, 1, 8}[rng.IntN(3)]
		u.Start(start * mu)
		got := drive(s, u, 800, 1e9, func(int) int { return workers })
		use, wait := mean(got.completed[400:])/mu, mean(got.waiting[400:])/mean(got.completed[400:])
		t.Logf("%2d workers of %3.0f ms, a stall every %v s, from %.1f·μ: use %.3f, wait %3.0f ms", workers, 1e3*stay,
			s.stalls, start, use, 1e3*wait)
		if use < .7 || wait > .6 {
			t.Errorf("%d workers of %.0f ms: use %.3f, wait %.0f ms", workers, 1e3*stay, use, 1e3*wait)
		}
	}
}

// Load below the capacity teaches nothing, and is not held back.
func TestUpstreamKeepsItsEstimateBelowLoad(t *testing.T) {
	s := &service{rng: rand.New(rand.NewPCG(1, 2)), queue: 1 << 20, time: exponential(.05)}
	u := &capacity.Upstream{Min: 50, Max: 5000, Delay: 1}
	u.Start(1000)
	got := drive(s, u, 2000, 400, func(int) int { return 50 })
	if use := mean(got.completed) / 400; use < .99 || u.Estimate() != 1000 {
		t.Errorf("served %.3f of a load of 400, estimate %v of 1000", use, u.Estimate())
	}
}

// An upstream that answers nothing for a while is found again.
func TestUpstreamRecoversFromAStop(t *testing.T) {
	s := &service{rng: rand.New(rand.NewPCG(1, 2)), queue: 100, time: fixed(.05)}
	u := &capacity.Upstream{Min: 100, Max: 5000, Delay: 1}
	u.Start(1000)
	got := drive(s, u, 1200, 1e9, func(k int) int {
		if k >= 200 && k < 280 {
			return 0
		}
		return 50
	})
	if low := u.Min * 1.5; got.capacity[270] > low {
		t.Errorf("%v given to an upstream that answers nothing for 17 s", got.capacity[270])
	}
	if use := mean(got.completed[600:]) / 1000; use < .9 {
		t.Errorf("use %.3f long after the stop", use)
	}
}

func TestUpstreamKeepsItsBounds(t *testing.T) {
	number := func(t *rapid.T, label string) float64 {
		if rapid.IntRange(0, 4).Draw(t, label+" bad") == 0 {
			return rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -5, 0, 1e300}).Draw(t, label)
		}
		return rapid.Float64Range(0, 1e5).Draw(t, label)
	}
	rapid.Check(t, func(t *rapid.T) {
		least := rapid.Float64Range(1e-3, 1e3).Draw(t, "min")
		u := &capacity.Upstream{Min: least, Max: least * rapid.Float64Range(1, 1e3).Draw(t, "max"),
			Delay: rapid.IntRange(-1, 4).Draw(t, "d"), Window: number(t, "window")}
		u.Start(number(t, "start"))
		for range rapid.IntRange(1, 60).Draw(t, "rounds") {
			c := u.Step(capacity.Answers{
				Span: number(t, "span"), Completed: number(t, "completed"), Residence: number(t, "residence"),
				Shed: number(t, "shed"), InFlight: number(t, "in flight"), Binding: rapid.Bool().Draw(t, "binding"),
			})
			for _, v := range []float64{c, u.Capacity(), u.Estimate()} {
				if !(v >= u.Min && v <= u.Max) {
					t.Fatalf("%v outside [%v, %v]", v, u.Min, u.Max)
				}
			}
			if !(u.Backlog() >= 0) || !(u.BaseLatency() >= 0) || math.IsInf(u.BaseLatency(), 0) {
				t.Fatalf("backlog %v, stay %v", u.Backlog(), u.BaseLatency())
			}
		}
	})
}
