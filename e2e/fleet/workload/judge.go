package workload

import (
	"fmt"
	"math"
	"time"
)

// rounding is forgiven, as a part of a sum: claims travel as 32-bit floats.
const rounding = 1e-5

// near reports whether a sum is what it should be.
func near(got, want float64) bool { return math.Abs(got-want) <= rounding*max(want, 1) }

// Wrong says which sum of a gateway that is there is not the sum of the claims of the others
// that are there; "" if none is. It looks at the gateway where it found one last first.
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

// present says by number which gateways the others should count.
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
	if !g.heard.Any {
		return fmt.Sprintf("gateway %d has heard nothing of its agent", g.Number)
	}
	for i := range g.flows {
		want := 0.0
		for j, other := range f.Gateways {
			if present[j] && other != g {
				want += other.flows[i].Claim
			}
		}
		if got := g.flows[i].others.Claims; !near(got, want) {
			return fmt.Sprintf("gateway %d hears %g of flow %d, want %g", g.Number, got, i, want)
		}
	}
	for i := range g.keys {
		want := f.othersClaim(g, g.keys[i].id, present)
		if got := g.keys[i].others.Claims; !near(got, want) {
			return fmt.Sprintf("gateway %d hears %g of key %x, want %g", g.Number, got, g.keys[i].id, want)
		}
	}
	return ""
}

// othersClaim is what the gateways that are there claim of a key, but for one.
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
	set   bool
}

// Settle forgets all that is known of offsets: somebody has come or gone.
func (f *Fleet) Settle() {
	for _, g := range f.Gateways {
		g.mu.Lock()
		for i := range g.keys {
			g.keys[i].offset = offset{}
		}
		g.mu.Unlock()
	}
}

// Audit looks at all counts that gateways are sent, and returns by how many requests the
// worst of them is wrong at least, since Settle. lag is δ, the oldest that a count may be;
// the agent's own, if that is longer.
func (f *Fleet) Audit(now, lag time.Duration) (worst float64, where string) {
	present := f.present()
	for _, g := range f.Gateways {
		if !present[g.Number] {
			continue
		}
		for i := range g.keys {
			if off := f.auditKey(g, i, now, lag, present); off > worst {
				worst, where = off, fmt.Sprintf("gateway %d, key %x", g.Number, g.keys[i].id)
			}
		}
	}
	return worst, where
}

// auditKey narrows a key's offset and returns by how much its bounds cross.
func (f *Fleet) auditKey(g *Gateway, at int, now, lag time.Duration, present []bool) float64 {
	g.mu.Lock()
	key, seen, lag := g.keys[at].id, g.keys[at].others, max(lag, g.heard.Lag)
	g.mu.Unlock()
	if seen.Epoch == 0 {
		return 0 // nobody else uses it
	}
	least, most := 0.0, 0.0
	for _, s := range f.users[f.numbers[key]] {
		if s.gateway != g && present[s.gateway.Number] {
			low, high := s.gateway.counted(s.at, now, lag)
			least, most = least+low, most+high
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	o := &g.keys[at].offset
	if !o.set || o.epoch != seen.Epoch {
		*o = offset{seen.Epoch, seen.Admitted - most, seen.Admitted - least, true}
		return 0
	}
	o.least, o.most = max(o.least, seen.Admitted-most), min(o.most, seen.Admitted-least)
	return max(0, o.least-o.most)
}

// counted is what a gateway has admitted of a key: what everybody must know, which is older
// than the lag, and what somebody may take it for, who has last heard it a lag ago and takes it
// to go on as claimed.
func (g *Gateway) counted(at int, now, lag time.Duration) (least, most float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := &g.keys[at]
	least = k.admitted
	if now-k.at < lag {
		least -= 1 + math.Floor(k.claim*lag.Seconds())
	}
	return max(least, 0), k.admitted + k.claim*lag.Seconds()
}
