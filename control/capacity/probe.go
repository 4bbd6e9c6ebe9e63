package capacity

import "math"

const (
	// firstPart is the part of the estimate that a probe gives in its first two blocks,
	// laterPart what it gives from then on. Less would drain the backlog sooner, and
	// clients would notice more of it.
	firstPart, laterPart = .75, .5
	// blockRounds is the number of rounds of a block, which is compared with the block before.
	blockRounds = 3
	// maxBlocks bounds a probe. Where the backlog lasts longer, the latency stays as it was.
	maxBlocks = 50
)

// probe is a time in which the pool admits less than the estimate, so that the latency
// without a backlog can be measured. It is judged in blocks of rounds:
//
//	the backlog drains        less is in flight than in the block before, or more is
//	                          answered than is given: go on
//	the estimate is too high  clients want more, and less is answered than even the
//	                          probe gives: the estimate becomes what was answered
//	otherwise                 the block is quiet
//
// The probe is over after two quiet blocks in a row; one alone could be a block in which
// everything stood still.
type probe struct {
	left      int     // rounds of the block; 0: there is no probe
	blocks    int     // done
	quiet     int     // quiet blocks in a row
	sum       float64 // of what was in flight in the block
	before    float64 // mean of what was in flight in the block before
	completed float64 // cost answered in the block
	span      float64 // of the block, seconds
	binding   bool    // shares limited the load in all of the block
	least     float64 // latency seen in the block, seconds; 0: none
}

func (p *probe) on() bool { return p.left > 0 }

// part of the estimate to give.
func (p *probe) part() float64 {
	if p.blocks < 2 {
		return firstPart
	}
	return laterPart
}

// begin starts the next block. The first one lasts delay rounds longer: until then
// what was given before still shows.
func (p *probe) begin(delay int, before float64) {
	*p = probe{left: blockRounds + max(delay, 0), blocks: p.blocks, quiet: p.quiet, before: before, binding: true}
}

// step adds one round with its latency, or 0 if none was measured. It returns whether the
// probe is over, and the estimate to go on with.
func (p *probe) step(a Answers, latency, estimate float64) (over bool, better float64) {
	p.sum += a.InFlight
	p.binding = p.binding && a.Binding
	p.completed += a.Completed
	p.span += a.Span
	if latency > 0 && (p.least == 0 || latency < p.least) {
		p.least = latency
	}
	if p.left--; p.left > 0 {
		return false, estimate
	}
	mean, given := p.sum/blockRounds, p.part()*estimate*p.span
	falls := mean < p.before-2*math.Sqrt(mean)
	drains := p.completed > 1.15*given+math.Sqrt(p.completed)
	short := p.binding && p.completed < .85*given-math.Sqrt(given)
	first := math.IsInf(p.before, 1)
	p.blocks++
	p.quiet++
	switch {
	case p.blocks >= maxBlocks:
		p.least = 0
		return true, estimate
	case first || falls || drains:
		p.quiet = 0
	case short:
		estimate, p.quiet = p.completed/p.span, 0
	case p.quiet == 2:
		return true, estimate
	}
	p.begin(0, mean)
	return false, estimate
}
