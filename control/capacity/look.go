package capacity

import "math"

const (
	// A look gives three quarters of the estimate, and half of it when that does not
	// drain the backlog soon. Less would be quicker, and be felt more.
	lookPart, lastPart = .75, .5
	// lookBlock is how many rounds are compared with as many before.
	lookBlock = 3
	// lookBlocks bounds a look; a backlog that is longer keeps the stay as it was.
	lookBlocks = 50
)

// look is a while at less than the estimate, to see the stay without a backlog. It
// is over when in two blocks running what is in flight falls no more and as much is
// answered as given: one could be a block in which everything stood still. More is
// answered while a backlog drains; less, while there is demand, when even so much
// is beyond the upstream: then the estimate was wrong, and is what was answered.
type look struct {
	left      int     // rounds of the block; 0: there is no look
	blocks    int     // done
	quiet     int     // of them, since anything drained
	sum       float64 // of what was in flight in the block
	before    float64 // mean of the block before
	completed float64 // in the block
	span      float64 // of the block, seconds
	binding   bool    // shares limited the load in all of the block
	least     float64 // stay seen in the block, seconds; 0: none
}

func (l *look) on() bool { return l.left > 0 }

// part of the estimate to give.
func (l *look) part() float64 {
	if l.blocks < 2 {
		return lookPart
	}
	return lastPart
}

// begin starts the next block; the first one lasts until what was given before no
// longer shows, delay rounds.
func (l *look) begin(delay int, before float64) {
	*l = look{left: lookBlock + max(delay, 0), blocks: l.blocks, quiet: l.quiet, before: before, binding: true}
}

// step takes one round, with its stay or 0. It tells whether the look is over, and the
// estimate to go on with.
func (l *look) step(a Answers, stay, estimate float64) (over bool, better float64) {
	l.sum += a.InFlight
	l.binding = l.binding && a.Binding
	l.completed += a.Completed
	l.span += a.Span
	if stay > 0 && (l.least == 0 || stay < l.least) {
		l.least = stay
	}
	if l.left--; l.left > 0 {
		return false, estimate
	}
	mean, given := l.sum/lookBlock, l.part()*estimate*l.span
	falls := mean < l.before-2*math.Sqrt(mean)
	drains := l.completed > 1.15*given+math.Sqrt(l.completed)
	short := l.binding && l.completed < .85*given-math.Sqrt(given)
	first := math.IsInf(l.before, 1)
	l.blocks++
	l.quiet++
	switch {
	case l.blocks >= lookBlocks:
		l.least = 0
		return true, estimate
	case first || falls || drains:
		l.quiet = 0
	case short:
		estimate, l.quiet = l.completed/l.span, 0
	case l.quiet == 2:
		return true, estimate
	}
	l.begin(0, mean)
	return false, estimate
}
