package swarm

import "math"

// Cell is a point of the grid: a limit, the number of its replicas, and the delay between them.
type Cell struct {
	Rate     float64 // requests/s
	Replicas int
	Delay    float64 // seconds, one way
}

// Result are the measurements of a cell. They are parts of 1 where no unit is given.
type Result struct {
	Cell
	Lag float64 // δ in seconds
	// Use is the part of the limit that passed in the long run, with a demand of more than twice the limit.
	// The demand is even, or all at one gateway. Or it is at one gateway while the others ask for half of
	// their share (Skewed) or for all of it (Critical: each is at the edge of saturation).
	UseEven, UseLone, UseSkewed, UseCritical float64
	// Over is by how much the highest window after a join exceeded the limit: half of
	// the replicas are saturated, then the other half too. A window is a second, or the
	// time of a hundred requests if that is longer and the effort allows it. Strict has
	// φ = 0, Quarter φ = .25, the product's.
	OverStrict, OverQuarter float64
	// Settling is the time after the join until the rates in force of both halves stay within 5 % of half of
	// the limit each, in lags; φ = .25. +Inf: never.
	Settling float64
	// Refused is the part refused of requests that should all pass. Calm: all together
	// ask for 80 % of the limit, evenly. Below: one asks for half of its share, all
	// others are saturated. Police: the worse of the two without a queue, where arrivals
	// beyond the bucket cannot wait.
	RefusedCalm, RefusedBelow, RefusedPolice float64

	effort Effort // that it was measured with
}

// Targets of the design, as parts of 1, and lags.
const (
	TargetUse         = 0.98
	TargetOverStrict  = 0.05
	TargetOverQuarter = 0.12
	TargetSettling    = 10.0
	// TargetRefused is none; what is measured is said to be none below 1 in 1000.
	TargetRefused = 1e-3
)

// Misses names the targets that the cell misses, one letter each: u use (of even, lone
// or skewed demand), o over-admission, s settling, r refusals below the share. Missed has
// their figures.
func (r Result) Misses() (letters string) {
	for _, m := range r.Missed() {
		letters += m.Target
	}
	return letters
}

const (
	quarter   = 0.25 // φ of the product
	overload  = 2.0  // demand over limit where all are saturated
	calmLoad  = 0.8  // where all together ask for less
	belowLoad = 0.5  // demand over share, of a gateway that asks for less among others
)

// Effort bounds the work of a cell: how many requests and lags a mean covers.
type Effort struct {
	Requests float64 // of the whole swarm, at least
	Lags     float64
	Seconds  float64 // of virtual time, at most, where requests are rare, with 200 replicas; see most
}

// Full and Quick are the efforts of the table and of its test.
var (
	Full  = Effort{Requests: 10000, Lags: 15, Seconds: 60}
	Quick = Effort{Requests: 500, Lags: 10, Seconds: 20}
)

// span is the time that a mean covers, in seconds.
func (e Effort) span(c Cell, lag float64) float64 {
	return max(e.Lags*lag, 5, min(e.Requests/c.Rate, e.most(c.Replicas)))
}

// most is Seconds, and less for more than 200 replicas, whose steps take longer. For fewer it
// is up to ten times as much.
func (e Effort) most(replicas int) float64 { return e.Seconds * min(10, 200/float64(replicas)) }

// window is the time in which over-admission is measured, in seconds.
func (e Effort) window(c Cell) float64 { return max(1, min(100/c.Rate, e.most(c.Replicas))) }

// watched is for how long a join is watched, in seconds.
func (e Effort) watched(c Cell, lag float64) float64 { return max(e.Lags*lag, 3, 1.5*e.window(c)) }

// Measure runs a cell.
func Measure(c Cell, e Effort) Result {
	p := Params{Rate: c.Rate, Replicas: c.Replicas, Delay: c.Delay, Guarantee: quarter, Seed: 1}
	r := Result{Cell: c, Lag: p.Lag(), effort: e}
	n := float64(c.Replicas)
	r.UseEven = use(p, e, overload/n, overload/n)
	r.UseLone = use(p, e, overload, 0)
	r.UseSkewed = use(p, e, overload, 0.5/n)
	r.UseCritical = use(p, e, overload, 1/n)
	r.OverQuarter, r.Settling = join(p, e)
	p.Guarantee = 0
	r.OverStrict, _ = join(p, e)
	p.Guarantee = quarter
	r.RefusedCalm, r.RefusedBelow = calm(p, e), below(p, e)
	p.Police = true
	r.RefusedPolice = max(calm(p, e), below(p, e))
	return r
}

// run lets span seconds pass and returns what passed.
func (s *Swarm) run(span float64) (passed float64) {
	for end := s.step + int(math.Ceil(span/s.h)); s.step < end; {
		passed += s.Step()
	}
	return passed
}

// warm returns the time that a swarm runs before a measurement, s.
func warm(p Params) float64 { return max(15*p.Lag(), 3) }

// use returns the part of the limit that passes when the first gateway asks for the part first of the limit and
// each other gateway for the part other.
func use(p Params, e Effort, first, other float64) float64 {
	s := New(p)
	for i := range s.nodes {
		s.Load(i, other*p.Rate)
	}
	s.Load(0, first*p.Rate)
	s.run(warm(p))
	span := e.span(Cell{p.Rate, p.Replicas, p.Delay}, p.Lag())
	return s.run(span) / (p.Rate * span)
}

// join saturates the first half of the replicas, then also the second half (the smaller half if the number is
// odd). It returns the excess of the highest window, and the number of lags until both halves have settled.
func join(p Params, e Effort) (over, settling float64) {
	s := New(p)
	half, each := (p.Replicas+1)/2, overload*p.Rate/float64(p.Replicas)
	for i := range half {
		s.Load(i, each*float64(p.Replicas)/float64(half))
	}
	window := e.window(Cell{p.Rate, p.Replicas, p.Delay})
	s.run(warm(p) + window)
	for i := half; i < p.Replicas; i++ {
		s.Load(i, each)
	}
	start, last, sum, highest := s.Now(), 0.0, 0.0, 0.0
	rows := make([]float64, int(math.Ceil(window/s.h)))
	end := start + e.watched(Cell{p.Rate, p.Replicas, p.Delay}, p.Lag())
	for k := 0; s.Now() < end; k++ {
		n := s.Step()
		sum += n - rows[k%len(rows)]
		rows[k%len(rows)] = n
		highest = max(highest, sum)
		for _, side := range [2][2]int{{0, half}, {half, p.Replicas}} {
			u := 0.0
			for i := side[0]; i < side[1]; i++ {
				u += s.InForce(i)
			}
			want := p.Rate * float64(side[1]-side[0]) / float64(p.Replicas)
			if math.Abs(u-want) > 0.05*want {
				last = s.Now() - start
			}
		}
	}
	if last > end-start-2*s.h {
		last = math.Inf(1)
	}
	return highest/(p.Rate*window) - 1, last / p.Lag()
}

// calm is the part refused when all together ask for 80 % of the limit.
func calm(p Params, e Effort) float64 {
	s := New(p)
	for i := range s.nodes {
		s.Load(i, calmLoad*p.Rate/float64(p.Replicas))
	}
	return s.refusals(p, e, 0, p.Replicas)
}

// below is the part refused of a gateway that asks for half of its share while the
// others ask for twice theirs.
func below(p Params, e Effort) float64 {
	s := New(p)
	share := p.Rate / float64(p.Replicas)
	for i := range s.nodes {
		s.Load(i, overload*share)
	}
	s.Load(0, belowLoad*share)
	return s.refusals(p, e, 0, 1)
}

// refusals is the part refused of what gateways from..to were offered, once warm.
func (s *Swarm) refusals(p Params, e Effort, from, to int) float64 {
	s.run(warm(p))
	count := func() (offered, refused float64) {
		for i := from; i < to; i++ {
			offered, refused = offered+s.Offered[i], refused+s.Refused[i]
		}
		return offered, refused
	}
	offered, refused := count()
	s.run(e.span(Cell{p.Rate * float64(to-from) / float64(p.Replicas), p.Replicas, p.Delay}, p.Lag()))
	more, no := count()
	if more == offered {
		return 0
	}
	return (no - refused) / (more - offered)
}
