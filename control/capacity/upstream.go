package capacity

import (
	"cmp"
	"math"
)

// Upstream finds the capacity of an upstream from its answers: [Measured], fed
// with the backlog that residence tells apart from work.
//
//	W  = max(R, ∫N dt)/C             mean stay of a round's answers (Little)
//	W₀ = the least W of a window     the stay without a backlog
//	N₀ = ĉ·W₀                        in flight at ĉ without a backlog
//	q  = max(0, N − N₀ − 4·√N₀) + B
//
//	symbol  here                 symbol  here
//	N, B    InFlight, Shed       W₀      base
//	C, R    Completed, Residence 4       slackSigma
//
// The stay is the mean, not the quickest answer: measured against the quickest, a
// service with fast and slow answers has a backlog at any load, and the loop would
// take its capacity down to the floor. What is in flight of N₀ varies by √N₀, and
// the least of noisy means is low by about as much; four of them are no backlog.
//
// A full pool keeps a small backlog standing, so that the least stay of a window
// would rise from window to window. Hence the look: when W₀ is older than the
// window and the pool was full all the time, three quarters of the estimate are
// given until the backlog is gone, and W₀ is what is seen then.
//
// While the load rises, the quick among the slow are answered first and R/C is too
// low; while it falls, ∫N dt/C is too low. The greater of the two is right in both cases.
//
// What the upstream turns away has waited nowhere, and counts as backlog once.
// Pauses of the upstream, and the way back from them, are pace's.
//
// Weakness: a stay that changes for other reasons than load (a deployment, another
// mix of requests) is taken for a backlog until the window is over. Answers that
// last (streams, WebSockets) say nothing in time: such a pool's capacity should be
// fixed.
type Upstream struct {
	// Min and Max bound the capacity, units/s, 0 < Min ≤ Max.
	Min, Max float64
	// Delay is d of Measured: rounds until a capacity shows in the answers.
	Delay int
	// Window is how long a least stay is believed, seconds; 0 means 60. Longer
	// looks less often, and takes longer to forget.
	Window float64

	law      Measured
	base     float64 // W₀, seconds; 0: not known yet
	age      float64 // of base, seconds
	answers  Answers // gathered for the next sample of W
	flown    float64 // ∫N dt over them, cost·seconds
	aloft    float64 // N of the round before
	slack    int     // rounds without binding
	look     look
	pace     pace
	backlog  float64
	capacity float64
}

// Answers are what an upstream did in one round, over all gateways and flows.
type Answers struct {
	Span      float64 // of the round, seconds, > 0
	Completed float64 // cost answered
	Residence float64 // cost·seconds that the completed spent there
	Shed      float64 // cost turned away
	InFlight  float64 // cost there now
	Binding   bool    // shares, not demand, limited the load
}

const (
	slackSigma    = 4
	defaultWindow = 60
	// enough is the cost whose mean stay is worth comparing; fewer answers wait
	// for the next round's.
	enough = 10
	// The first stay seen may be wrong by far: it is not believed for long.
	firstAge = .9
	// resting is how many rounds without binding show that there is no backlog.
	resting = 4
	// A round's span is taken to be within these, seconds.
	minSpan, maxSpan = .05, 2
)

// Start sets the estimate: the configured capacity, or what a leader before had
// found. What was seen is kept.
func (u *Upstream) Start(estimate float64) {
	u.law.Max = u.Max
	u.law.Start(u.within(estimate))
	u.capacity = u.law.Estimate()
}

// Bound changes the bounds; the estimate is brought into them.
func (u *Upstream) Bound(least, most float64) {
	u.Min, u.Max = least, most
	u.Start(u.law.Estimate())
}

// Capacity is what is to be shared now, units/s, within Min and Max.
func (u *Upstream) Capacity() float64 { return u.capacity }

// Estimate is ĉ, what the upstream is believed to serve, units/s.
func (u *Upstream) Estimate() float64 { return u.law.Estimate() }

// Backlog is q, the cost that waits at the upstream.
func (u *Upstream) Backlog() float64 { return u.backlog }

// Stay is W₀, the mean stay without a backlog, seconds; 0: not known yet.
func (u *Upstream) Stay() float64 { return u.base }

// Step takes one round's answers and returns the capacity to share in the next.
func (u *Upstream) Step(a Answers) float64 {
	if u.law.Estimate() == 0 {
		u.Start(u.Max)
	}
	a = a.sane()
	u.rest(a.Binding)
	u.learn(a)
	n := u.law.Estimate() * u.base
	u.backlog = a.Shed
	if u.base > 0 {
		u.backlog += max(0, a.InFlight-n-slackSigma*math.Sqrt(n))
	}
	if u.look.on() {
		u.capacity = u.within(u.look.part() * u.law.Estimate())
		return u.capacity
	}
	u.law.Period, u.law.Delay, u.law.Max = a.Span, u.Delay, u.Max
	rate := u.pace.median(a.Completed / a.Span)
	c := u.law.Step(Observation{Served: rate * a.Span, Queued: u.backlog, Binding: a.Binding}, u.Min)
	before := u.law.Estimate()
	u.law.Start(u.within(u.pace.recover(before, rate, u.backlog, a)))
	c += u.law.Estimate() - before
	u.capacity = u.within(c)
	return u.capacity
}

// rest counts the rounds in which demand limited the load.
func (u *Upstream) rest(binding bool) {
	u.slack++
	if binding {
		u.slack = 0
	}
}

// learn keeps W₀.
func (u *Upstream) learn(a Answers) {
	u.age += a.Span
	stay, ok := u.sample(a)
	switch {
	case u.look.on():
		over, better := u.look.step(a, stay, u.law.Estimate())
		u.law.Start(u.within(better))
		if over {
			u.base, u.age = cmp.Or(u.look.least, u.base), 0
			u.look = look{}
		}
	case ok && u.base == 0:
		u.base, u.age = stay, firstAge*u.window()
	case ok && stay < u.base:
		u.base, u.age = stay, 0
	case u.age < u.window():
	case u.slack >= resting && ok:
		u.base, u.age = stay, 0
	case u.slack < resting && u.base > 0:
		u.look.begin(u.Delay, math.Inf(1))
	}
}

// sample is the mean stay of what was answered since the last one, when that is
// enough.
func (u *Upstream) sample(a Answers) (stay float64, ok bool) {
	u.answers.Completed += a.Completed
	u.answers.Residence += a.Residence
	u.flown += (u.aloft + a.InFlight) / 2 * a.Span
	u.aloft = a.InFlight
	if u.answers.Completed < enough {
		return 0, false
	}
	stay = u.answers.Residence / u.answers.Completed
	if u.base > 0 { // the first one rather too low than that of an overload
		stay = max(stay, u.flown/u.answers.Completed)
	}
	u.answers, u.flown = Answers{}, 0
	return stay, stay > 0
}

func (u *Upstream) window() float64 {
	if !(u.Window > 0) {
		return defaultWindow
	}
	return u.Window
}

// within brings a capacity into the bounds.
func (u *Upstream) within(c float64) float64 { return min(max(sane(c), u.Min), u.Max) }

// sane brings what was measured into what can be.
func (a Answers) sane() Answers {
	return Answers{
		Span: min(max(sane(a.Span), minSpan), maxSpan), Completed: sane(a.Completed),
		Residence: sane(a.Residence), Shed: sane(a.Shed), InFlight: sane(a.InFlight), Binding: a.Binding,
	}
}
