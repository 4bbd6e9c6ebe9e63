package allocation

import (
	"math"
	"time"
)

// Rehearse returns what the next round would decide under another configuration, if nothing is reported before it: the
// law of the package comment on the demand that is known now. The allocator stays as it is.
//
// A tenant that the configuration no longer has counts as Unknown. What tenants ask for that are Unknown now stays
// Unknown: it is not known which of them asks for what. Supposed demands take the place of what is known.
func (al *Allocator) Rehearse(c *Config, supposed map[Flow]float64) *Outcome {
	next := New(al.params)
	next.Configure(c)
	next.collecting = al.collecting
	for _, f := range al.order {
		next.adopt(f)
	}
	for key, demand := range supposed {
		if c.Has(key.Pool) {
			next.newFlow(time.Time{}, c.resolve(key)).demand = estimate{mean: demand, samples: 1}
		}
	}
	for name, state := range al.pools {
		copied := *state
		next.pools[name] = &copied
	}
	for name, u := range next.upstreams {
		if known := al.upstreams[name]; known != nil && known.began == u.began {
			least, most := u.law.Min, u.law.Max
			u.law, u.inFlight = known.law, known.inFlight
			u.law.Bound(least, most)
		}
	}
	return next.outcome()
}

// adopt adds what another allocator knows of a flow.
func (al *Allocator) adopt(f *flow) {
	key := al.config.resolve(f.key)
	mine := al.flows[key]
	if mine == nil {
		mine = al.newFlow(f.arrived, key)
		mine.demand = estimate{dispersion: f.demand.dispersion, samples: 1}
	}
	mine.demand.mean += f.demand.mean
	mine.demand.dispersion = math.Max(mine.demand.dispersion, f.demand.dispersion)
	mine.admitted += f.admitted
	mine.waiting += f.waiting
	mine.limited = mine.limited || f.limited
	mine.agents = max(mine.agents, f.agents)
}
