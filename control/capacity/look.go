package capacity

import "math"

const (
	// A look gives three quarters of the estimate, and half of it when that does not
	// drain the backlog soon. Less would be quicker, and be felt more.
	lookPart, lastPart = .75, .5
	// lookBlock is how many rounds are compared with as many before.
	lookBlock = 4
	// lookBlocks bounds a look; a backlog that is longer keeps the stay as it was.
	lookBlocks = 40
)

// look is a while at less than the estimate, to see the stay without a backlog. It
// is over when what is in flight falls no more and no more is answered than given.
type look struct {
	left      int     // rounds of the block; 0: there is no look
	blocks    int     // done
	sum       float64 // of what was in flight in the block
	before    float64 // mean of the block before
	completed float64 // in the block
	span      float64 // of the block, seconds
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

// step takes one round, with its stay or 0, and tells whether the look is over.
func (l *look) step(a Answers, stay, estimate float64) bool {
	l.sum += a.InFlight
	l.completed += a.Completed
	l.span += a.Span
	if stay > 0 && (l.least == 0 || stay < l.least) {
		l.least = stay
	}
	if l.left--; l.left > 0 {
		return false
	}
	mean := l.sum / lookBlock
	falls := mean < .9*l.before-math.Sqrt(mean/lookBlock)
	drains := l.completed > (1+l.part())/2*estimate*l.span+math.Sqrt(l.completed)
	l.blocks++
	switch {
	case l.blocks >= lookBlocks:
		l.least = 0
		return true
	case !falls && !drains:
		return true
	}
	l.left, l.sum, l.before, l.completed, l.span, l.least = lookBlock, 0, mean, 0, 0, 0
	return false
}
