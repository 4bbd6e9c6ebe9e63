package workload

import (
	"sync"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

// Presence is the state of a gateway, as the others should see it.
type Presence int

// The presences of a gateway.
const (
	Away    Presence = iota // it has not come yet, has left, or has crashed
	Present                 // it claims its rates, and the others receive its claims
	CutOff                  // it claims its rates, and the others receive nothing
)

// Gateway is one synthetic gateway. Its methods may be called by several goroutines.
type Gateway struct {
	Number    int
	perSecond float64 // requests

	mu        sync.Mutex
	presence  Presence
	keys      []use
	places    map[uint64]int // of keys, in keys
	flows     []flow
	next      float64 // requests that are due, the part of the next one included
	turn      int     // the key of the next request
	unsent    int     // keys before turn that had a request since the last claims
	began     bool
	last      time.Duration
	sentAll   bool // claims, on this link
	sending   pace // of claims
	receiving pace // of sums
	received  Received
	complete  map[uint64]bool // named by a Full state that is not complete yet; nil: there is none
}

// Received is the agent's latest state, except that of single keys.
type Received struct {
	Any       bool
	Replicas  int
	Lag       time.Duration
	Isolation exchange.Isolation
	// Shares is the sum of the flows' shares, cost units/s.
	Shares    float64
	AnyShares bool
}

// use is a gateway's use of a key, and the received sums of the others.
type use struct {
	id       uint64
	claim    float64 // requests/s
	admitted float64 // requests
	at       time.Duration
	others   exchange.KeySum
	offset   offset
}

type flow struct {
	exchange.FlowClaim
	others exchange.FlowSum
}

func newGateway(p Plan, number int) *Gateway {
	g := &Gateway{Number: number, places: map[uint64]int{}}
	for i := range p.Flows {
		g.flows = append(g.flows, flow{FlowClaim: exchange.FlowClaim{Key: id(firstFlow + uint64(i)),
			Claim: flowRate + float64(number), Active: 1}})
	}
	return g
}

func (g *Gateway) add(key uint64, claim float64) {
	g.places[key] = len(g.keys)
	g.keys = append(g.keys, use{id: key, claim: claim})
}

// Keys returns the number of keys that the gateway uses.
func (g *Gateway) Keys() int { return len(g.keys) }

// Set sets whether the gateway is present.
func (g *Gateway) Set(p Presence) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.presence = p
}

// Presence returns whether the gateway is present.
func (g *Gateway) Presence() Presence {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.presence
}

// Connected notes that the gateway has a new link: all claims are sent again.
func (g *Gateway) Connected(now time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sentAll = false
	if !g.began {
		g.began, g.last = true, now
		g.sending.happened(now)
		g.receiving.happened(now)
	}
}

// Work makes the requests that are due. One key has one request at most each time: more are left
// out. A gateway works on while it is not linked.
func (g *Gateway) Work(now time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next += g.perSecond * (now - g.last).Seconds()
	g.last = now
	due := min(int(g.next), len(g.keys))
	g.next -= float64(int(g.next))
	for range due {
		k := &g.keys[g.turn]
		k.admitted++
		k.at = now
		g.turn = (g.turn + 1) % len(g.keys)
	}
	g.unsent = min(g.unsent+due, len(g.keys))
}

// Claims returns the claims that have changed since the last ones, all on a new link, nil
// without any.
func (g *Gateway) Claims(now time.Duration) *exchange.Claims {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sending.happened(now)
	c := &exchange.Claims{}
	if !g.sentAll {
		g.sentAll, g.unsent = true, len(g.keys)
		for i := range g.flows {
			c.Flows = append(c.Flows, g.flows[i].FlowClaim)
		}
	}
	for i := range g.unsent {
		c.Keys = append(c.Keys, g.keys[(g.turn+len(g.keys)-g.unsent+i)%len(g.keys)].record())
	}
	g.unsent = 0
	if len(c.Keys)+len(c.Flows) == 0 {
		return nil
	}
	return c
}

// Late returns by how much more than a period the gateway has not sent its claims to the agent, nor received
// the agent's sums. It covers the last two to four seconds.
func (g *Gateway) Late(now time.Duration) (sending, receiving time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sending.late(now), g.receiving.late(now)
}

// spent is the amount that a gateway reports as spent of each key's bucket, cost units: much more than
// the gateway admits. A replica to which a key is new counts no more than this amount.
const spent = 1e6

func (u *use) record() exchange.KeyClaim {
	return exchange.KeyClaim{Key: u.id, Claim: u.claim, Unsaturated: u.claim, Admitted: u.admitted, Spent: spent,
		Own: spent}
}

// Withdrawal returns the claims of a gateway that will use nothing any more.
func (g *Gateway) Withdrawal() *exchange.Claims {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := &exchange.Claims{}
	for i := range g.flows {
		c.Flows = append(c.Flows, exchange.FlowClaim{Key: g.flows[i].Key})
	}
	for i := range g.keys {
		c.Withdrawn = append(c.Withdrawn, g.keys[i].id)
	}
	return c
}

// Receive takes the agent's sums. Those of keys that the gateway does not use are skipped, as a
// filter does.
func (g *Gateway) Receive(now time.Duration, s *exchange.Sums) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.receiving.happened(now)
	g.received.Any, g.received.Replicas, g.received.Lag, g.received.Isolation = true, s.Replicas, s.Lag, s.Isolation
	if s.Full {
		g.complete = map[uint64]bool{}
	}
	for _, k := range s.Keys {
		if at, ok := g.places[k.Key]; ok {
			g.keys[at].others = k
		}
		g.name(k.Key)
	}
	for _, f := range s.Flows {
		g.flow(f.Key, f)
		g.name(f.Key)
	}
	for _, key := range s.Gone {
		g.gone(key)
	}
	if g.complete != nil && !s.More {
		g.dropUnnamed()
	}
}

func (g *Gateway) name(key uint64) {
	if g.complete != nil {
		g.complete[key] = true
	}
}

func (g *Gateway) flow(key uint64, s exchange.FlowSum) {
	for i := range g.flows {
		if g.flows[i].Key == key {
			g.flows[i].others = s
		}
	}
}

func (g *Gateway) gone(key uint64) {
	if at, ok := g.places[key]; ok {
		g.keys[at].others = exchange.KeySum{}
	}
	g.flow(key, exchange.FlowSum{})
}

// dropUnnamed ends a Full state: keys and flows that it did not name are used by no other gateway.
func (g *Gateway) dropUnnamed() {
	for i := range g.keys {
		if !g.complete[g.keys[i].id] {
			g.keys[i].others = exchange.KeySum{}
		}
	}
	for i := range g.flows {
		if !g.complete[g.flows[i].Key] {
			g.flows[i].others = exchange.FlowSum{}
		}
	}
	g.complete = nil
}

// HearShares takes the sum of the shares of all flows.
func (g *Gateway) HearShares(sum float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.received.Shares, g.received.AnyShares = sum, true
}

// Received returns the agent's latest state.
func (g *Gateway) Received() Received {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.received
}
