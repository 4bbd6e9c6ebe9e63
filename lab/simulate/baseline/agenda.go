package baseline

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/titrate/titrate/lab/simulate/scenario"
	"github.com/titrate/titrate/lab/simulate/virtual"
)

// centre is the coordinator's place in messages.
const centre = -1

// message is something that is due: it arrives, or a clock strikes.
type message struct {
	at       time.Duration
	from, to int
	rates    []float64 // by unit; the receiver only reads them
	id       int       // of central's requests
	kind     uint8
}

// agenda has the pending messages and timers, and the network that delivers them.
type agenda struct {
	virtual.Queue[message]
	gossip *scenario.Gossip
	random *rand.Rand
	groups []int // by gateway, the last the coordinator's
	lost   bool  // the coordinator is
}

func newAgenda(s *scenario.Scenario, gateways int) *agenda {
	return &agenda{gossip: &s.Gossip, random: rand.New(rand.NewPCG(s.Seed, 0x626173656c696e65)),
		groups: make([]int, gateways+1)}
}

// put adds a message that is due later.
func (a *agenda) put(m message) { a.Add(m.at, m) }

// send sends rates from one to another at a time, if they get through.
func (a *agenda) send(now time.Duration, m message) {
	if !a.reaches(m.from, m.to) || a.random.Float64() < a.gossip.Loss {
		return
	}
	jitter := time.Duration((2*a.random.Float64() - 1) * float64(a.gossip.Jitter))
	m.at = now + max(time.Millisecond, a.gossip.Delay+jitter)
	a.put(m)
}

// reaches reports whether a message passes between two places.
func (a *agenda) reaches(from, to int) bool {
	if a.lost && (from == centre || to == centre) {
		return false
	}
	return a.group(from) == a.group(to)
}

func (a *agenda) group(place int) int {
	if place == centre {
		place = len(a.groups) - 1
	}
	return a.groups[place]
}

// happen takes events of the network.
func (a *agenda) happen(e *scenario.Event, names []string) {
	switch e.Kind {
	case scenario.Partition:
		for i := range a.groups {
			name := scenario.Coordinator
			if i < len(names) {
				name = names[i]
			}
			a.groups[i] = slices.IndexFunc(e.Groups, func(g []string) bool { return slices.Contains(g, name) })
		}
	case scenario.Heal:
		clear(a.groups)
	case scenario.CoordinatorLost:
		a.lost = true
	case scenario.CoordinatorBack:
		a.lost = false
	}
}
