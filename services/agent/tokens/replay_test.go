package tokens

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/control/limiter"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"google.golang.org/protobuf/proto"
)

// Packets that were recorded and are played again, at any time later, change nothing. Two gateways of one
// agent admit what the limit gives, and when the run is over the key gives its burst again.
func TestReplayedPackets(t *testing.T) {
	const rate, burst = 20., 5.
	c := &config.Config{Seed: 3, Tenants: []config.Tenant{{Name: "acme", Limits: []config.Limit{
		{Name: "l", Rate: rate, Burst: burst, Precision: config.Exact}}}}}
	var in config.Set
	in.Replace(c)
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		owner, asks := New(Options{Agent: "a", Life: 1 << 32, Owner: func(uint64) string { return "a" },
			Linked: func(uint64) bool { return false }, Revision: in.Revision,
			Allowed: func(n *exchange.KeyName) (uint64, grant.Params, bool) { return limiter.ExactKey(&in, 0, n) }}),
			New(Options{Agent: "b", Life: 2 << 32, Owner: func(uint64) string { return "a" },
				Linked: func(uint64) bool { return true }})
		var engines []*limiter.Engine
		for range 2 {
			e := limiter.New(limiter.Options{Keys: 64, Ask: func() {}})
			if err := e.Apply(c); err != nil {
				t.Fatal(err)
			}
			e.LinkTokens(int64(settled), true)
			engines = append(engines, e)
		}
		var recorded []*gossipv1.Tokens
		admitted, ticket, now := 0, uint64(0), settled
		count := func(events []limiter.Event) {
			for _, one := range events {
				if one.Outcome.Verdict == limiter.Admit {
					admitted++
				}
			}
		}
		step := func(load, replays bool) {
			now += time.Millisecond
			for i, e := range engines {
				if r := (limiter.Request{Tenant: "acme", Client: "c", Cost: 1}); load && rng.IntN(20) == 0 {
					ticket++
					out := e.Decide(int64(now), &r)
					if out.Verdict == limiter.Wait {
						out, _ = e.Enqueue(int64(now), &r, ticket)
					}
					if out.Verdict == limiter.Admit {
						admitted++
					}
				}
				count(e.Tick(int64(now), nil))
				var asked exchange.TokenRequests
				e.PollTokens(int64(now), &asked)
				asks.Ask(now, uint64(i), &asked)
			}
			_, packets := asks.Take()
			for _, m := range packets["a"] {
				recorded = append(recorded, proto.CloneOf(m))
				owner.Receive(now, "b", m)
			}
			if replays && len(recorded) > 0 {
				owner.Receive(now, "b", proto.CloneOf(recorded[rng.IntN(len(recorded))]))
			}
			owner.Tick(now)
			_, packets = owner.Take()
			for _, m := range packets["b"] {
				asks.Receive(now, "a", m)
			}
			answers, _ := asks.Take()
			for i, e := range engines {
				if a := answers[uint64(i)]; a != nil {
					count(e.AnswerTokens(int64(now), a, nil))
				}
			}
		}
		for range 4000 {
			step(true, true)
		}
		if most := burst + rate*4 + 1; float64(admitted) > most || float64(admitted) < rate*4*.9 {
			t.Errorf("seed %d: %d admitted, want %.0f at most and nearly so many", seed, admitted, most)
		}
		for range 2000 {
			step(false, true)
		}
		admitted = 0
		for range 1000 {
			step(true, false)
		}
		if float64(admitted) < burst+rate*.9-1 {
			t.Errorf("seed %d: %d admitted in the second after the replays", seed, admitted)
		}
	}
}
