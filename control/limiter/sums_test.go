package limiter

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"

	"github.com/titrate/titrate/control/limiter/internal/hash"
)

// An engine that receives changes decides like an engine that receives everything each period.
// The burst is never used up: close to its end a key that slept may rise a lag later. What
// is left differs by a few W at most (see drc.Ledger). It lasts less than a second: later a
// key that is gone loses its state, and the next user of the key begins with a new state.
func TestChangesSayTheSameAsEverything(t *testing.T) {
	const clients = 6
	rapid.Check(t, func(t *rapid.T) {
		var engines [2]*Engine
		l := config.Limit{Name: "l", Rate: rapid.Float64Range(0.005, 0.05).Draw(t, "rate"), Burst: 1000}
		for i := range engines {
			engines[i] = New(Options{Keys: 1024})
			if err := engines[i].Apply(simple(50, config.Queue{}, l)); err != nil {
				t.Fatal(err)
			}
		}
		all := others{keys: map[uint64]exchange.KeySum{}, flows: map[uint64]exchange.FlowSum{},
			gone: map[uint64]float64{}}
		now := sec
		for period := range rapid.IntRange(1, 19).Draw(t, "periods") {
			now += 50 * ms
			change := all.draw(t, clients, rapid.SampledFrom([]exchange.Isolation{0, 0, 0, 1}).Draw(t, "isolation"))
			full := all.full(change) // and what is gone, once
			engines[0].SetSums(now, full)
			if period == 0 || rapid.IntRange(0, 20).Draw(t, "new link") == 0 {
				change = full
			}
			for _, part := range change.Parts(rapid.IntRange(2, 9).Draw(t, "part")) {
				engines[1].SetSums(now, part)
			}
			for range rapid.IntRange(0, 6).Draw(t, "requests") {
				client := fmt.Sprint(rapid.IntRange(0, clients-1).Draw(t, "client"))
				r := Request{Tenant: "a", Client: client, Pool: "api", Cost: 1}
				one, two := engines[0].Decide(now, &r), engines[1].Decide(now, &r)
				if one.Verdict != two.Verdict {
					t.Fatalf("client %s: %+v with everything, %+v with what changes", client, one, two)
				}
			}
			for _, e := range engines {
				var c exchange.Claims
				e.Claims(now, &c)
			}
		}
		for i := range clients {
			one, two := engines[0].known(now, i), engines[1].known(now, i)
			if math.Abs(one.Free-two.Free) > 0.1 || one.claims() != two.claims() {
				t.Fatalf("client %d: %+v with everything, %+v with what changes", i, one, two)
			}
		}
		checkAll(t, engines[:])
	})
}

func checkAll(t *rapid.T, engines []*Engine) {
	for _, e := range engines {
		if err := e.keys.Check(); err != nil {
			t.Fatal(err)
		}
	}
}

// known returns the engine's state of a client's limit.
func (e *Engine) known(now int64, client int) LimitState {
	return e.Explain(now, &Request{Tenant: "a", Client: fmt.Sprint(client), Pool: "api", Cost: 1}).Limits[0]
}

// claims returns the claims of others on a limit; nothing if the key is not contended.
func (l LimitState) claims() (c Claimed) {
	if l.Claimed != nil {
		c = *l.Claimed
	}
	c.Fair = 0
	return c
}

// others holds the state of the other replicas.
type others struct {
	keys  map[uint64]exchange.KeySum
	flows map[uint64]exchange.FlowSum
	gone  map[uint64]float64 // admitted
}

// draw changes some of it and returns the change.
func (o *others) draw(t *rapid.T, clients int, isolation exchange.Isolation) *exchange.Sums {
	s := &exchange.Sums{Replicas: 3, TotalWeight: 3, Weight: 1, Lag: 125 * time.Millisecond, Isolation: isolation}
	for i := range clients {
		key := hash.Limit(7, "a", "l", fmt.Sprint(i))
		k, known := o.keys[key]
		switch rapid.IntRange(0, 6).Draw(t, "key") {
		case 0:
			k.Key, k.Epoch, k.Admitted = key, 1, max(k.Admitted, o.gone[key])+rapid.Float64Range(0, 3).Draw(t, "admitted")
			k.Claims, k.Active = rapid.Float64Range(0.01, 9).Draw(t, "claims"), float64(rapid.IntRange(0, 2).Draw(t, "active"))
			k.Spent = rapid.Float64Range(0.1, 9).Draw(t, "spent")
			o.keys[key], s.Keys = k, append(s.Keys, k)
		case 1:
			if known && isolation == exchange.Connected {
				delete(o.keys, key)
				s.Gone, o.gone[key] = append(s.Gone, key), k.Admitted
			}
		}
	}
	key := hash.Flow(7, "a", "api")
	switch rapid.IntRange(0, 4).Draw(t, "flow") {
	case 0:
		f := exchange.FlowSum{Key: key, Claims: rapid.Float64Range(1, 50).Draw(t, "claims"), Active: 1}
		o.flows[key], s.Flows = f, append(s.Flows, f)
	case 1:
		if isolation == exchange.Connected {
			delete(o.flows, key)
			s.Gone = append(s.Gone, key)
		}
	}
	return s
}

// full is everything, with the header of a change, and what is gone by it.
func (o *others) full(s *exchange.Sums) *exchange.Sums {
	f := *s
	f.Full, f.Gone = true, nil
	f.Keys = slices.Collect(maps.Values(o.keys))
	for _, key := range s.Gone {
		f.Keys = append(f.Keys, exchange.KeySum{Key: key, Epoch: 1, Admitted: o.gone[key]})
	}
	f.Flows = slices.Collect(maps.Values(o.flows))
	return &f
}

// A key that the sums call gone is forgotten, but not while this gateway receives too little to
// know; then it is when the others are reachable again.
func TestGoneKeysAreForgotten(t *testing.T) {
	key := hash.Limit(7, "a", "l", "x")
	sums := func(i exchange.Isolation, gone ...uint64) *exchange.Sums {
		return &exchange.Sums{Replicas: 3, TotalWeight: 3, Weight: 1, Lag: 125e6, Isolation: i, Gone: gone}
	}
	for _, cut := range []bool{false, true} {
		e, now := New(Options{Keys: 1024}), sec
		mustApply(t, e, simple(1e9, config.Queue{}, config.Limit{Name: "l", Rate: 1, Burst: 10}))
		e.SetSums(now, sumsOf(3, exchange.KeySum{Key: key, Claims: 1, Active: 1, Admitted: 5, Spent: 5, Epoch: 1}))
		pass := func(s *exchange.Sums, periods int) {
			for range periods {
				now += 50 * ms
				e.SetSums(now, s)
				var c exchange.Claims
				e.Claims(now, &c)
				s = &exchange.Sums{Replicas: 3, TotalWeight: 3, Weight: 1, Lag: 125e6, Isolation: s.Isolation}
			}
		}
		pass(sums(exchange.Connected), 20*60)
		if n := e.keys.Stats().Contended; n != 1 || !e.ClaimedByOthers() {
			t.Fatalf("%d keys with a state a minute after the others claimed one", n)
		}
		if cut {
			pass(sums(exchange.Frozen, key), 20*60)
			if n := e.keys.Stats().Contended; n != 1 || !e.ClaimedByOthers() {
				t.Errorf("%d keys with a state in a gateway that is cut off", n)
			}
			pass(sums(exchange.Connected), 40)
		} else {
			pass(sums(exchange.Connected, key), 40)
		}
		if n := e.keys.Stats().Contended; n != 0 || e.ClaimedByOthers() {
			t.Errorf("cut off %v: %d keys with a state two seconds after the key is gone", cut, n)
		}
		checkKeys(t, e)
	}
}

// While the agent sends nothing the others are taken to go on as they last claimed; the next sums
// replace that, also for a key that they do not name.
func TestOthersGoOnWhileTheAgentIsSilent(t *testing.T) {
	e, now := New(Options{Keys: 1024}), sec
	mustApply(t, e, simple(1e9, config.Queue{}, config.Limit{Name: "l", Rate: 12, Burst: 100}))
	var keys []exchange.KeySum
	for i := range 2 {
		keys = append(keys, exchange.KeySum{Key: hash.Limit(7, "a", "l", fmt.Sprint(i)), Claims: 11, Active: 1,
			Admitted: 50, Spent: 50, Epoch: 1})
	}
	e.SetSums(now, sumsOf(3, keys...))
	left := func(client int) float64 {
		return e.known(now, client).Free
	}
	for i := range 2 {
		e.Decide(now, &Request{Tenant: "a", Client: fmt.Sprint(i), Pool: "api", Cost: 1})
	}
	before := left(0)
	e.GoOn(now, exchange.Frozen)
	if at := e.Standing(); at.Isolation != exchange.Frozen {
		t.Errorf("isolation %v, want frozen", at.Isolation)
	}
	now += 4 * sec
	for i := range 2 {
		if got, want := left(i), before-4*11+4*12; math.Abs(got-want) > 0.1 {
			t.Errorf("client %d: %.2f left after 4 s, want %.2f: 11/s are used, 12/s are refilled", i, got, want)
		}
	}
	keys[0].Admitted += 20
	e.SetSums(now, &exchange.Sums{Replicas: 3, TotalWeight: 3, Weight: 1, Lag: 100e6, Keys: keys[:1]})
	for i, used := range []float64{20, 0} {
		if got, want := left(i), min(99, before-used+4*12); math.Abs(got-want) > 5 {
			t.Errorf("client %d: %.2f left when the agent speaks again, want %.2f", i, got, want)
		}
	}
	if at := e.Standing(); at.Isolation != exchange.Connected {
		t.Errorf("isolation %v, want connected", at.Isolation)
	}
}
