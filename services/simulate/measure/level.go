package measure

import "time"

// level is a bucket that drains with a rate and takes what was admitted, without a
// rim: beyond burst it shows the excess of the worst window that ends now.
type level struct {
	rate, burst float64
	spent       float64
	last        time.Duration
	worst       float64 // spent − burst at most
	any         bool
}

// set changes rate and burst from now on. What was admitted under a larger burst is
// no excess under the smaller one.
func (l *level) set(now time.Duration, rate, burst float64) {
	l.drain(now)
	if burst < l.burst {
		l.spent = min(l.spent, burst)
	}
	l.rate, l.burst = rate, burst
}

func (l *level) drain(now time.Duration) {
	l.spent = max(0, l.spent-l.rate*(now-l.last).Seconds())
	l.last = now
}

func (l *level) admit(now time.Duration, cost float64) {
	l.drain(now)
	l.spent += cost
	if excess := l.spent - l.burst; excess > l.worst || !l.any {
		l.worst, l.any = excess, true
	}
}

// second finds the most that was admitted in any second.
type second struct {
	queue   []admission
	first   int
	sum     float64
	highest float64
}

type admission struct {
	at   time.Duration
	cost float64
}

func (s *second) admit(now time.Duration, cost float64) {
	for s.first < len(s.queue) && s.queue[s.first].at <= now-time.Second {
		s.sum -= s.queue[s.first].cost
		s.first++
	}
	switch {
	case s.first == len(s.queue):
		s.queue, s.first, s.sum = s.queue[:0], 0, 0 // no rounding is carried on
	case s.first > 64 && 2*s.first > len(s.queue):
		s.queue = s.queue[:copy(s.queue, s.queue[s.first:])]
		s.first = 0
	}
	s.queue = append(s.queue, admission{now, cost})
	s.sum += cost
	s.highest = max(s.highest, s.sum)
}
