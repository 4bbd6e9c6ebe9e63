package workload

import (
	"fmt"
	"math"
	"time"

	"github.com/titrate/titrate/control/claims"
)

// rounding is forgiven, as a part of a sum: claims travel as 32-bit floats.
const rounding = 1e-5

// near reports whether a sum is right up to rounding.
func near(got, want float64) bool { return math.Abs(got-want) <= rounding*max(want, 1) }

// Wrong describes a sum of a present gateway that is not the sum of the other present gateways' claims; "" if
// there is none. It begins at the gateway where it found one last.
func (f *Fleet) Wrong(last *int) string {
	present := f.present()
	for i := range f.Gateways {
		at := (*last + i) % len(f.Gateways)
		if !present[at] {
			continue
		}
		if what := f.wrongAt(f.Gateways[at], present); what != "" {
			*last = at
			return what
		}
	}
	return ""
}

// present returns, by number, which gateways the others should count.
func (f *Fleet) present() []bool {
	all := make([]bool, len(f.Gateways))
	for i, g := range f.Gateways {
		all[i] = g.Presence() == Present
	}
	return all
}

// wrongAt is Wrong for one gateway. Claims do not change, so the others' need no lock.
func (f *Fleet) wrongAt(g *Gateway, present []bool) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.received.Any {
		return fmt.Sprintf("gateway %d has received nothing from its agent", g.Number)
	}
	for i := range g.flows {
		want := 0.0
		for j, other := range f.Gateways {
			if present[j] && other != g {
				want += other.flows[i].Claim
			}
		}
		if got := g.flows[i].others.Claims; !near(got, want) {
			return fmt.Sprintf("gateway %d receives %g for flow %d, want %g", g.Number, got, i, want)
		}
	}
	for i := range g.keys {
		want := f.othersClaim(g, g.keys[i].id, present)
		if got := g.keys[i].others.Claims; !near(got, want) {
			return fmt.Sprintf("gateway %d receives %g for key %x, want %g", g.Number, got, g.keys[i].id, want)
		}
	}
	return ""
}

// othersClaim returns the sum of the claims for a key of all present gateways but one.
func (f *Fleet) othersClaim(g *Gateway, key uint64, present []bool) (sum float64) {
	for _, s := range f.users[f.numbers[key]] {
		if s.gateway != g && present[s.gateway.Number] {
			sum += s.gateway.keys[s.at].claim
		}
	}
	return sum
}

// offset bounds the difference between a sum of counts and the counts, as far as it was
// looked at.
type offset struct {
	epoch uint32
	least float64
	most  float64
	low   look    // that least is from
	high  look    // that most is from
	begun float64 // admitted by the others at the first look
	made  float64 // admitted by the others since then
	set   bool
}

// look is a received sum, and the bounds of the others' admitted requests at that time.
type look struct {
	at, lag     time.Duration
	sum         float64
	least, most float64
}

// String describes the look.
func (l look) String() string {
	return fmt.Sprintf("at %.1f s the sum is %.2f, of %.2f to %.2f requests (δ %.2f s)", l.at.Seconds(), l.sum,
		l.least, l.most, l.lag.Seconds())
}

// blind reports whether a sum that stood still would not have been noticed.
func (o *offset) blind() bool { return o.set && o.most-o.least >= o.made }

// Settle forgets all bounds of offsets: a gateway has come or gone.
func (f *Fleet) Settle() {
	for _, g := range f.Gateways {
		g.mu.Lock()
		for i := range g.keys {
			g.keys[i].offset = offset{}
		}
		g.mu.Unlock()
	}
}

// Counts is the result of an audit since Settle.
type Counts struct {
	// Off is the least error of the worst count, in requests.
	Off   float64
	Where string // that count is
	// Lag is the longest δ that a count was judged with.
	Lag time.Duration
	// Late is the longest time that a gateway was late with its claims, or was sent sums late.
	Late time.Duration
	// Seen is the part of the moving counts that would have been found wrong had they stood still.
	Seen float64
}

// Audit looks at all counts that gateways receive. lag is δ if no process is late, or the agent's own δ if that
// is longer.
func (f *Fleet) Audit(now, lag time.Duration) Counts {
	present := f.present()
	late := f.lateness(now, present)
	c := Counts{Late: max(late.most, late.agent), Seen: 1}
	blind, all := 0, 0
	for _, g := range f.Gateways {
		if !present[g.Number] {
			continue
		}
		for i := range g.keys {
			found, ok := f.auditKey(g, i, now, lag, late)
			if !ok {
				continue
			}
			c.Lag = max(c.Lag, found.lag)
			if found.moved {
				all++
			}
			if found.moved && found.blind {
				blind++
			}
			if found.off > c.Off {
				c.Off, c.Where = found.off, fmt.Sprintf("gateway %d, key %x: %v; %v", g.Number, g.keys[i].id,
					g.keys[i].offset.high, g.keys[i].offset.low)
			}
		}
	}
	if all > 0 {
		c.Seen = 1 - float64(blind)/float64(all)
	}
	return c
}

// lateness is the lateness of gateways and agents, by number of the gateway. An agent is as late as the sums
// that it sends to its gateway.
type lateness struct {
	present   []bool
	sender    []time.Duration // until the agent has read the gateway's claims
	receiving []time.Duration // until the gateway received its agent's state
	most      time.Duration   // of a gateway with its claims
	agent     time.Duration   // of an agent, the most: it may be the owner of any key
}

func (f *Fleet) lateness(now time.Duration, present []bool) *lateness {
	l := &lateness{present: present, sender: make([]time.Duration, len(f.Gateways)),
		receiving: make([]time.Duration, len(f.Gateways))}
	for i, g := range f.Gateways {
		if !present[i] {
			continue
		}
		sending, receiving := g.Late(now)
		l.sender[i], l.receiving[i] = sending+receiving, receiving
		l.most, l.agent = max(l.most, sending), max(l.agent, receiving)
	}
	return l
}

// found is the result of a look at one count.
type found struct {
	off   float64 // requests
	lag   time.Duration
	moved bool // the others have admitted something
	blind bool
}

// auditKey narrows a key's offset and returns by how much its bounds cross; false if no other gateway uses the
// key. A count is as old as the sum of δ and the lateness of its sender, the key's owner and the receiver.
func (f *Fleet) auditKey(g *Gateway, at int, now, lag time.Duration, late *lateness) (out found, ok bool) {
	g.mu.Lock()
	key, seen := g.keys[at].id, g.keys[at].others
	lag = max(lag, g.received.Lag) + late.receiving[g.Number] + late.agent
	g.mu.Unlock()
	if seen.Epoch == 0 {
		return out, false
	}
	l, all := look{at: now, sum: seen.Admitted}, 0.0
	for _, s := range f.users[f.numbers[key]] {
		if from := s.gateway.Number; s.gateway != g && late.present[from] {
			lag := lag + late.sender[from]
			least, most, admitted := s.gateway.counted(s.at, now, lag, lag+catchUp)
			l.lag, l.least, l.most, all = max(l.lag, lag), l.least+least, l.most+most, all+admitted
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	o := &g.keys[at].offset
	o.narrow(l, seen.Epoch, all)
	out = found{off: max(0, o.least-o.most), lag: l.lag, moved: o.made > 0, blind: o.blind()}
	return out, true
}

// narrow narrows the bounds by a look, when the others have admitted so many requests.
func (o *offset) narrow(l look, epoch uint32, admitted float64) {
	if !o.set || o.epoch != epoch {
		*o = offset{epoch: epoch, least: l.sum - l.most, most: l.sum - l.least, low: l, high: l, begun: admitted,
			set: true}
	}
	if least := l.sum - l.most; least > o.least {
		o.least, o.low = least, l
	}
	if most := l.sum - l.least; most < o.most {
		o.most, o.high = most, l
	}
	o.made = admitted - o.begun
}

// catchUp is the time that the estimate of a late agent may stand once its packets arrive again. The gateways
// cannot see that one agent was late to another.
const catchUp = claims.CatchUp * time.Second

// counted returns a gateway's admitted requests of a key: the least that every agent must know, which is older
// than the lag. The most that an agent may assume, which estimates at the claimed rate for the time estimate;
// and the present number.
func (g *Gateway) counted(at int, now, lag, estimate time.Duration) (least, most, admitted float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := &g.keys[at]
	least = k.admitted
	if now-k.at < lag {
		least -= 1 + math.Floor(k.claim*lag.Seconds())
	}
	return max(least, 0), k.admitted + k.claim*estimate.Seconds(), k.admitted
}
