package capacity

import (
	"cmp"
	"math"
)

// Upstream finds the capacity of an upstream from its answers: [Measured], fed with the
// backlog q that is computed from how long requests are at the upstream.
//
//	W  = max(R, ∫N dt)/C             mean latency of a round's answers (Little's law)
//	W₀ = the least W of a window     the latency without a backlog
//	N₀ = ĉ·W₀                        in flight at the estimate ĉ without a backlog
//	q  = max(0, N − N₀ − 4·√N₀) + B
//
//	symbol  here                 symbol  here
//	N, B    InFlight, Shed       W₀      base
//	C, R    Completed, Residence 4       slackSigma
//
// W is the mean and not the latency of the fastest answer. Measured against the fastest,
// a service with fast and slow answers has a backlog at any load, and the loop would
// reduce its capacity to the floor. What is in flight varies by √N₀, and the least of
// noisy means is low by about as much; so four times √N₀ do not count as a backlog.
//
// A full pool always has a small backlog, so the least W of a window would rise from window
// to window. Hence the probe. When W₀ is older than the window and the pool was full all
// the time, the pool admits less for a moment. So the latency without a backlog can be
// measured; see probe.
//
// While the load rises, fast answers come before slow ones and R/C is too low. While the
// load falls, ∫N dt/C is too low. So W is the greater of the two.
//
// What the upstream refuses has not waited anywhere, and counts as backlog once. Pauses
// of the upstream, and the way back from them, are in recent.
//
// Weakness: a latency that rises for other reasons than load (a deployment, another mix
// of requests) counts as a backlog until the window is over. Answers that last long
// (streams, WebSockets) come too late to say anything: the capacity of such a pool should
// be fixed.
type Upstream struct {
	// Min and Max bound the capacity, units/s, 0 < Min ≤ Max.
	Min, Max float64
	// Delay is d of Measured: rounds until a capacity shows in the answers.
	Delay int
	// Window is the time for which a least latency is valid, seconds; 0 means 60. A longer
	// one probes less often, and forgets more slowly.
	Window float64

	law      Measured
	base     float64 // W₀, seconds; 0: not known yet
	age      float64 // of base, seconds
	answers  Answers // gathered for the next sample of W
	area     float64 // ∫N dt over them, cost·seconds
	inFlight float64 // N of the round before
	slack    int     // rounds without binding
	probe    probe
	recent   recent
	backlog  float64
	capacity float64
}

// Answers sums up the upstream's answers in one round, over all gateways and flows.
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
	// enough is the least cost whose mean latency is compared. Fewer answers are
	// added to those of the next round.
	enough = 10
	// firstAge is the age, as a part of the window, that the first latency seen starts with:
	// the latency may be far off and must not stay valid for long.
	firstAge = .9
	// resting is the number of rounds without binding that show that there is no backlog.
	resting = 4
	// A span outside of these, in seconds, counts as the nearer of them.
	minSpan, maxSpan = .05, 2
)

// Start sets the estimate: the configured capacity, or what an earlier leader found.
// What was measured is kept.
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

// Capacity returns the capacity to be shared now, units/s, within Min and Max.
func (u *Upstream) Capacity() float64 { return u.capacity }

// Estimate is ĉ, what the upstream is believed to serve, units/s.
func (u *Upstream) Estimate() float64 { return u.law.Estimate() }

// Backlog is q, the cost that waits at the upstream.
func (u *Upstream) Backlog() float64 { return u.backlog }

// BaseLatency is W₀, the mean latency without a backlog, seconds; 0: not known yet.
func (u *Upstream) BaseLatency() float64 { return u.base }

// Step adds one round's answers and returns the capacity to share in the next.
func (u *Upstream) Step(a Answers) float64 {
	if u.law.Estimate() == 0 {
		u.Start(u.Max)
	}
	a = a.sane()
	u.countSlack(a.Binding)
	u.learn(a)
	n := u.law.Estimate() * u.base
	u.backlog = a.Shed
	if u.base > 0 {
		u.backlog += max(0, a.InFlight-n-slackSigma*math.Sqrt(n))
	}
	if u.probe.on() {
		u.capacity = u.within(u.probe.part() * u.law.Estimate())
		return u.capacity
	}
	u.law.Period, u.law.Delay, u.law.Max = a.Span, u.Delay, u.Max
	rate := u.recent.median(a.Completed / a.Span)
	c := u.law.Step(Observation{Served: rate * a.Span, Queued: u.backlog, Binding: a.Binding}, u.Min)
	before := u.law.Estimate()
	u.law.Start(u.within(u.recent.recover(before, rate, u.backlog, a)))
	c += u.law.Estimate() - before
	u.capacity = u.within(c)
	return u.capacity
}

// countSlack counts the rounds since shares last limited the load.
func (u *Upstream) countSlack(binding bool) {
	u.slack++
	if binding {
		u.slack = 0
	}
}

// learn updates W₀.
func (u *Upstream) learn(a Answers) {
	u.age += a.Span
	latency, ok := u.sample(a)
	switch {
	case u.probe.on():
		over, better := u.probe.step(a, latency, u.law.Estimate())
		u.law.Start(u.within(better))
		if over {
			u.base, u.age = cmp.Or(u.probe.least, u.base), 0
			u.probe = probe{}
		}
	case ok && u.base == 0:
		u.base, u.age = latency, firstAge*u.window()
	case ok && latency < u.base:
		u.base, u.age = latency, 0
	case u.age < u.window():
	case u.slack >= resting && ok:
		u.base, u.age = latency, 0
	case u.slack < resting && u.base > 0:
		u.probe.begin(u.Delay, math.Inf(1))
	}
}

// sample returns the mean latency of what was answered since the last sample, if that is
// enough.
func (u *Upstream) sample(a Answers) (latency float64, ok bool) {
	u.answers.Completed += a.Completed
	u.answers.Residence += a.Residence
	u.area += (u.inFlight + a.InFlight) / 2 * a.Span
	u.inFlight = a.InFlight
	if u.answers.Completed < enough {
		return 0, false
	}
	latency = u.answers.Residence / u.answers.Completed
	if u.base > 0 { // the first sample may be too low, but must not be that of an overload
		latency = max(latency, u.area/u.answers.Completed)
	}
	u.answers, u.area = Answers{}, 0
	return latency, latency > 0
}

func (u *Upstream) window() float64 {
	if !(u.Window > 0) {
		return defaultWindow
	}
	return u.Window
}

// within brings a capacity into the bounds.
func (u *Upstream) within(c float64) float64 { return min(max(sane(c), u.Min), u.Max) }

// sane replaces bad numbers.
func (a Answers) sane() Answers {
	return Answers{
		Span: min(max(sane(a.Span), minSpan), maxSpan), Completed: sane(a.Completed),
		Residence: sane(a.Residence), Shed: sane(a.Shed), InFlight: sane(a.InFlight), Binding: a.Binding,
	}
}
