package exactness

import "time"

// gateways that there are from the beginning; the fourth joins.
const gateways = 3

// at is a request of a client: when, in seconds, and through which gateway.
type at struct {
	t       float64
	gateway int
}

// shape makes a client's requests. perSecond is the load's mean, for edge the requests on either side of the
// edge.
type shape func(perSecond, seconds float64) []at

// load is a way to ask.
type load struct {
	name  string
	shape shape
	// above and below are the rates of the two clients, over the limit.
	above, below float64
}

const (
	joining  = "join"
	changing = "change"
)

var loads = []load{
	{"6:3:1", split, 1.5, .8},
	{"pinned", pinned, 1.5, .8},
	{"rotating", rotating, 1.5, .8},
	{"on/off", onOff, 1.5, .8},
	{"edge", edge, 1, .5},
	{joining, join, 1.5, .8},
	{changing, split, 1.5, .4},
}

// Loads are the names of the loads.
func Loads() (names []string) {
	for _, l := range loads {
		names = append(names, l.name)
	}
	return names
}

// even spaces requests evenly; next picks the gateway of the one at time t.
func even(perSecond, seconds float64, next func(t float64) int) []at {
	var all []at
	for i := range int(perSecond * seconds) {
		t := (float64(i) + .5) / perSecond
		all = append(all, at{t, next(t)})
	}
	return all
}

func split(perSecond, seconds float64) []at {
	return even(perSecond, seconds, weighted(6, 3, 1))
}

func pinned(perSecond, seconds float64) []at {
	return even(perSecond, seconds, func(float64) int { return 0 })
}

func rotating(perSecond, seconds float64) []at {
	return even(perSecond, seconds, func(t float64) int { return int(t/2) % gateways })
}

// weighted picks gateways by smooth weighted round robin.
func weighted(weights ...float64) func(t float64) int {
	credit := make([]float64, len(weights))
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	return func(float64) int {
		best := 0
		for i, w := range weights {
			if credit[i] += w; credit[i] > credit[best] {
				best = i
			}
		}
		credit[best] -= sum
		return best
	}
}

// onOff asks twice as much in every other second.
func onOff(perSecond, seconds float64) []at {
	var all []at
	for _, a := range split(2*perSecond, seconds) {
		if int(a.t)%2 == 0 {
			all = append(all, a)
		}
	}
	return all
}

// edge asks n times in the last tenth of every third second, and n times in the
// first tenth of the next.
func edge(n, seconds float64) []at {
	next := weighted(6, 3, 1)
	var all []at
	for second := 2.0; second < seconds; second += 3 {
		count := max(1, int(2*n+.5))
		for i := range count {
			t := second - .1 + .2*(float64(i)+.5)/float64(count)
			all = append(all, at{t, next(t)})
		}
	}
	return all
}

// join sends to a fourth gateway from halfway on.
func join(perSecond, seconds float64) []at {
	before, after := weighted(6, 3, 1), weighted(6, 3, 1, 3)
	return even(perSecond, seconds, func(t float64) int {
		if t < seconds/2 {
			return before(t)
		}
		return after(t)
	})
}

// client is one of a cell's two.
type client struct {
	cell  *Cell
	above bool
	asks  []at
}

// clients of a cell for a run of some length.
func (c *Cell) clients(d time.Duration) []client {
	l := c.load
	above := l.above
	if c.Limit >= 10_000 && above > 1.2 {
		above = 1.2 // more than that is too much for the machine, not for the limit
	}
	return []client{
		{c, true, l.shape(above*float64(c.Limit), d.Seconds())},
		{c, false, l.shape(l.below*float64(c.Limit), d.Seconds())},
	}
}
