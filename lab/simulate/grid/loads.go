package grid

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/titrate/titrate/lab/simulate/scenario"
)

// load is a kind of client. A below one never wants more than rate·t + burst.
type load struct {
	name  string
	below bool
	make  func(l limit, span time.Duration) (scenario.Demand, scenario.Route)
}

// started is the time at which clients begin: a moment after the gateways.
const started = 100 * time.Millisecond

// sixty is the load of a client of 60 % of its limit whose requests come by chance.
const sixty = "60 %, random"

func loads() []load {
	var (
		pinned = scenario.Route{Kind: scenario.Pinned, Replica: "gw-1"}
		round  = scenario.Route{Kind: scenario.RoundRobin}
		spread = scenario.Route{}
		uneven = scenario.Route{Weights: map[string]float64{"gw-1": 6, "gw-2": 3, "gw-3": 1}}
	)
	moving := func(every time.Duration) scenario.Route {
		return scenario.Route{Kind: scenario.Moving, Every: max(every, time.Millisecond)}
	}
	steady := func(part float64, r scenario.Route) func(limit, time.Duration) (scenario.Demand, scenario.Route) {
		return func(l limit, _ time.Duration) (scenario.Demand, scenario.Route) {
			return scenario.Constant(part * l.rate), r
		}
	}
	random := func(part float64, r scenario.Route) func(limit, time.Duration) (scenario.Demand, scenario.Route) {
		return func(l limit, _ time.Duration) (scenario.Demand, scenario.Route) {
			return scenario.Poisson(part * l.rate), r
		}
	}
	// full bursts, each so many refill times after the last; a nil route moves on
	// with each.
	bursts := func(gap float64, r *scenario.Route) func(limit, time.Duration) (scenario.Demand, scenario.Route) {
		return func(l limit, span time.Duration) (scenario.Demand, scenario.Route) {
			every := refill(l, gap)
			route := moving(every)
			if r != nil {
				route = *r
			}
			return scenario.Demand{Trace: trace(l, every, span)}, route
		}
	}
	return []load{
		{"pinned", true, steady(1, pinned)},
		{"round robin", true, steady(1, round)},
		{"moving each 2 s", true, steady(1, moving(2*time.Second))},
		{"random", true, shaped},
		{sixty, true, random(.6, spread)},
		{"bursts, one gateway", true, bursts(1, &pinned)},
		{"bursts, over all", true, bursts(1, &round)},
		{"bursts, hopping", true, bursts(1, nil)},
		{"bursts from idle", true, bursts(3, nil)},
		{"1.2× random", false, random(1.2, spread)},
		{"2× 6:3:1", false, random(2, uneven)},
		{"10× random", false, random(10, spread)},
		{"2× pinned", false, random(2, pinned)},
		{"2× moving each 2 s", false, random(2, moving(2*time.Second))},
		{"2× bursts, hopping", false, bursts(.5, nil)},
	}
}

// refill is the time in which so many bursts refill, rounded up.
func refill(l limit, bursts float64) time.Duration {
	return time.Duration(math.Ceil(bursts*l.burst/l.rate*1e9)) + time.Microsecond
}

// trace is a burst each so often.
func trace(l limit, every, span time.Duration) []scenario.Arrival {
	var out []scenario.Arrival
	for k := 0; ; k++ {
		at := time.Duration(k)*every + min(started, every/2)
		if at >= span {
			return out
		}
		for range int(l.burst) {
			out = append(out, scenario.Arrival{At: at, Client: client, Cost: 1})
		}
	}
}

// shaped is Poisson traffic at twice the rate, reduced to the requests that a bucket a thousandth smaller than
// the limit's admits.
func shaped(l limit, span time.Duration) (scenario.Demand, scenario.Route) {
	random := rand.New(rand.NewPCG(uint64(1000*l.rate), uint64(l.burst)))
	var out []scenario.Arrival
	level, now := 0.0, started.Seconds()
	for {
		gap := random.ExpFloat64() / (2 * l.rate)
		now += gap
		if now >= span.Seconds() {
			return scenario.Demand{Trace: out}, scenario.Route{}
		}
		if level = max(0, level-.999*gap*l.rate); level+1 <= l.burst {
			level++
			out = append(out, scenario.Arrival{At: time.Duration(now * 1e9), Client: client, Cost: 1})
		}
	}
}

// client is the name of the one client of each tenant.
const client = "app"
