package scenario

import (
	"math"
	"time"
)

// Demand is a rate over time, or a trace of requests.
type Demand struct {
	// Points give the rate from a time on, in order of time; before the first it
	// is 0.
	Points []Point
	Ramp   bool          // the rate goes in straight lines from point to point
	Repeat time.Duration // > 0: the points repeat so often
	Random bool          // Poisson arrivals; otherwise evenly spaced
	Trace  []Arrival     // if there are any, nothing else counts; in order of time
}

// Point is a rate from a time on.
type Point struct {
	At   time.Duration
	Rate float64 // requests/s
}

// Arrival is a line of a trace.
type Arrival struct {
	At     time.Duration
	Client string
	Cost   float64
}

// Constant is an even stream of rate requests/s.
func Constant(rate float64) Demand { return Demand{Points: []Point{{0, rate}}} }

// Poisson is a random stream of rate requests/s.
func Poisson(rate float64) Demand { return Demand{Points: []Point{{0, rate}}, Random: true} }

// OnOff is rate requests/s for a while, then none for another, over and over.
func OnOff(rate float64, on, off time.Duration) Demand {
	return Demand{Points: []Point{{0, rate}, {on, 0}}, Repeat: on + off}
}

// piece is a stretch of time in which the rate is a straight line.
type piece struct {
	until float64 // seconds
	rate  float64 // at the time asked for
	slope float64
}

// at is the piece that holds at t seconds.
func (d *Demand) at(t float64) piece {
	base, in := 0.0, t
	end := math.Inf(1)
	if period := d.Repeat.Seconds(); period > 0 {
		base = math.Floor(t/period) * period
		in = math.Max(t-base, 0)
		end = base + period
	}
	p := piece{until: end}
	for i, point := range d.Points {
		from := point.At.Seconds()
		if from > in {
			p.until = math.Min(end, base+from)
			break
		}
		p.rate, p.slope = point.Rate, 0
		if d.Ramp && i+1 < len(d.Points) {
			next := d.Points[i+1]
			if span := next.At.Seconds() - from; span > 0 {
				p.slope = (next.Rate - point.Rate) / span
				p.rate += p.slope * (in - from)
			}
		}
	}
	if p.until <= t { // rounding at the seam of two pieces
		p.until = math.Nextafter(t, math.Inf(1))
	}
	return p
}

// Next is the time, in seconds, at which the demand since t has added up to n
// requests; +Inf if that is after end.
func (d *Demand) Next(t, n, end float64) float64 {
	for t < end {
		p := d.at(t)
		h := p.until - t
		whole := p.rate*h + p.slope*h*h/2
		if math.IsInf(h, 1) {
			whole = math.Inf(1)
			if p.rate == 0 {
				return whole
			}
		}
		if whole >= n && whole > 0 {
			if at := t + p.reach(n, h); at < end {
				return at
			}
			return math.Inf(1)
		}
		n -= math.Max(whole, 0)
		t = p.until
	}
	return math.Inf(1)
}

// reach solves rate·x + slope·x²/2 = n for x in [0, h].
func (p piece) reach(n, h float64) float64 {
	root := math.Sqrt(math.Max(p.rate*p.rate+2*p.slope*n, 0))
	if p.rate+root == 0 {
		return h
	}
	return math.Min(2*n/(p.rate+root), h)
}

// Changes are the times before end at which the rate bends or jumps; a ramp and a
// trace count as bending each second.
func (d *Demand) Changes(end time.Duration) []time.Duration {
	var out []time.Duration
	if len(d.Trace) > 0 || d.Ramp {
		for t := time.Second; t < end; t += time.Second {
			out = append(out, t)
		}
	}
	for base := time.Duration(0); base < end; base += d.Repeat {
		for _, p := range d.Points {
			if t := base + p.At; t > 0 && t < end {
				out = append(out, t)
			}
		}
		if d.Repeat <= 0 {
			break
		}
	}
	return out
}
