package grant_test

import (
	"fmt"
	"testing"

	"github.com/titrate/titrate/control/grant"
	"pgregory.net/rapid"
)

// Several keys go through the same lines, and the agents disagree for a while on the owners of some keys.
// Two owners of one key live and grant, or none does. Meanwhile each side admits r·t + b at most. From 3 s
// after the agents agree again on there is one bucket. A request never waits for longer than Hold.
func TestPropertyAgentsDisagree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const agents, end = 3, 14 * second
		s := newSite(rapid.Uint64().Draw(t, "seed"), int64(rapid.IntRange(50, 1000).Draw(t, "way µs"))*1000)
		s.loss = rapid.Float64Range(0, .05).Draw(t, "loss")
		agree := make([]int64, rapid.IntRange(1, 5).Draw(t, "keys"))
		sides := make([]float64, len(agree)) // seconds in which two owners may grant
		for i := range agree {
			rate := rapid.SampledFrom([]float64{1, 5, 20, 100}).Draw(t, fmt.Sprint("rate ", i))
			k := s.key(grant.Params{Rate: rate, Burst: int64(max(1, rate*rapid.Float64Range(.1, 2).Draw(t,
				fmt.Sprint("burst s ", i)))) * grant.Token, Strict: rapid.Bool().Draw(t, fmt.Sprint("strict ", i))}, agents)
			k.poisson(min(rate*rapid.Float64Range(.3, 4).Draw(t, fmt.Sprint("load ", i)), 200), end)
			for change := range rapid.IntRange(0, 3).Draw(t, fmt.Sprint("changes ", i)) {
				at := int64(rapid.IntRange(1000, 4000).Draw(t, fmt.Sprint("at ms ", i, change))) * 1e6
				owner, last := rapid.IntRange(0, agents-1).Draw(t, fmt.Sprint("owner ", i, change)), at
				for agent := range agents { // each notices it at another time
					late := at + int64(rapid.IntRange(0, 1500).Draw(t, fmt.Sprint("late ms ", i, change, agent)))*1e6
					s.at(late, func() { k.believe(agent, owner) })
					last = max(last, late)
				}
				agree[i] = max(agree[i], last)
				sides[i] += float64(last-at)/float64(second) + 3
			}
			if agree[i] > 0 { // two changes may have crossed each other: all agree on the last one
				agree[i] += 1e6
				s.at(agree[i], func() {
					for agent := range agents {
						k.believe(agent, k.believes[0])
					}
				})
			}
			for at := int64(0); at < end; at += second / 10 {
				s.at(at, k.registered)
			}
		}
		s.run(end + second)
		for i, k := range s.keys {
			slack := 1 + 8*k.p.Rate*float64(s.way)/float64(second)
			changes := 0.
			if agree[i] > 0 {
				changes = 1
			}
			if s.loss > 0 {
				slack *= 1 + changes*3
			}
			burst := float64(k.p.Burst) / grant.Token
			if most := slack + changes*(float64(agents)*burst+2*k.p.Rate*sides[i]); k.over(0) > most {
				t.Fatalf("key %d, %+v: %.1f over r·t + b in all, at most %.1f", i, k.p, k.over(0), most)
			}
			if from := agree[i] + listens + told; k.over(from) > slack {
				t.Fatalf("key %d, %+v, from %d ms on: %.1f over r·t + b, at most %.1f", i, k.p, from/1e6, k.over(from),
					slack)
			}
			if k.waits > 0 {
				t.Fatalf("key %d: %d requests wait for ever", i, k.waits)
			}
		}
	})
}
