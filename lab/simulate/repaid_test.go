package simulate

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/judge"
	"github.com/titrate/titrate/lab/simulate/measure"
	"github.com/titrate/titrate/lab/simulate/scenario"
	"github.com/titrate/titrate/lab/simulate/system"
	"github.com/titrate/titrate/lab/simulate/world"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

const (
	repaidRate, repaidBurst = 40., 40.
	// joins bounds the time from a heal until all agents reach each other.
	joins = 4 * time.Second
)

// What two sides of a cut admitted too much is repaid at the limit's rate once they reach each other. This holds
// whenever the cut begins and ends, in whatever order the agents notice the heal. It holds for limits that are
// LOCAL and for limits that are EXACT while agents are near. (During the cut, gateways without a majority go by
// ledgers, others by tokens.)
func TestRepaidHoweverAgentsRejoin(t *testing.T) {
	t.Parallel()
	repaidHoweverAgentsRejoin(t, 0, 0)
}

// The same where each key has one owner, which the cut changes for one side or both.
func TestRepaidHoweverOwnersChange(t *testing.T) {
	t.Parallel()
	repaidHoweverAgentsRejoin(t, 1, 0)
}

// The same where EXACT keys have, as those of an agent with many.
func TestRepaidHoweverOwnersOfManyKeysChange(t *testing.T) {
	t.Parallel()
	repaidHoweverAgentsRejoin(t, 0, -1)
}

func repaidHoweverAgentsRejoin(t *testing.T, everybody, shared int) {
	for _, precision := range []quotav1.Precision{quotav1.Precision_PRECISION_UNSPECIFIED, quotav1.Precision_LOCAL} {
		for gateways := 2; gateways <= 3; gateways++ {
			limit := judge.Limit{Rate: repaidRate, Burst: repaidBurst}
			most, _ := limit.Slack(gateways, judge.Lag(gateways, 10*time.Millisecond, false))
			seeds := seedsOf(40)
			switch {
			case precision == quotav1.Precision_LOCAL && shared != 0:
				continue // it shares all keys
			case precision == quotav1.Precision_LOCAL:
				seeds = 8
			}
			for seed := range seeds {
				t.Run(fmt.Sprintf("%v at %d gateways, %d", precision, gateways, seed), func(t *testing.T) {
					t.Parallel()
					s, heal := cutOver(precision, gateways, seed)
					s.Gossip.Everybody, s.Gossip.Shared = everybody, shared
					admitted, _ := playHealing(t, s)
					debt, unpaid := unpaid(admitted, heal+joins)
					if unpaid > most {
						t.Errorf("the excess is %.1f above what is left of the debt (%.1f, %v after the heal), want %.1f at most",
							unpaid, debt, joins, most)
					}
				})
			}
		}
	}
}

// cutOver is a client that asks for twice its limit while one agent is cut off, and when that ends.
func cutOver(precision quotav1.Precision, gateways int, seed uint64) (s *scenario.Scenario, heal time.Duration) {
	r := rand.New(rand.NewPCG(seed, 7)) // the same scenario each time
	between := func(low, high time.Duration) time.Duration { return low + time.Duration(r.Int64N(int64(high-low))) }
	cut := between(10*time.Second, 11*time.Second)
	heal = cut + between(2*time.Second, 8*time.Second)
	s = scenario.New(heal+10*time.Second, gateways)
	s.Seed, s.Gossip.Delay, s.Gossip.Jitter = seed+1, 200*time.Microsecond, 200*time.Microsecond
	s.Resources = []resource.Message{&quotav1.Tenant{Name: "tenants/acme"}, &quotav1.Limit{
		Name: "tenants/acme/limits/each", Rate: fmt.Sprint(repaidRate, "/s"), Burst: repaidBurst, Precision: precision}}
	weights := map[string]float64{}
	for i := range s.Replicas {
		s.Replicas[i].Weight = []float64{2, 1, 1}[i]
		weights[s.Replicas[i].Name] = s.Replicas[i].Weight
	}
	s.Clients = []scenario.Client{{Name: "global", Tenant: "acme", Cost: 1, Route: scenario.Route{Weights: weights},
		Demand: scenario.Demand{Random: true, Points: []scenario.Point{
			{Rate: repaidRate / 2}, {At: 5 * time.Second, Rate: 2 * repaidRate}}}}}
	s.Events = []scenario.Event{
		{At: cut, Kind: scenario.Partition, Groups: [][]string{{"gw-2"}}}, {At: heal, Kind: scenario.Heal}}
	return s, heal
}

// playHealing plays a scenario of one client. After a heal each agent receives from each other one after 0 to
// 0.5 s, and its memberlist knows that one as alive up to 2.5 s later. It returns when requests were admitted.
func playHealing(t *testing.T, s *scenario.Scenario) (admitted []time.Duration, key measure.Key) {
	t.Helper()
	r := rand.New(rand.NewPCG(s.Seed, 9))
	draw := func(most time.Duration) time.Duration { return time.Duration(r.Int64N(int64(most))) }
	type times struct{ packets, alive time.Duration }
	healing := map[[2]string]times{}
	for _, of := range s.Replicas {
		for _, other := range s.Replicas {
			packets := draw(500 * time.Millisecond)
			healing[[2]string{of.Name, other.Name}] = times{packets, packets + draw(2500*time.Millisecond)}
		}
	}
	begin := func(stage system.Stage) (system.System, error) {
		answer := stage.Answer
		stage.Answer = func(a system.Answer) {
			if a.Fate == system.Admitted {
				admitted = append(admitted, a.At)
			}
			answer(a)
		}
		made, err := world.New(stage)
		if err == nil {
			made.(*world.World).Healing = func(of, other string) (packets, alive time.Duration) {
				h := healing[[2]string{of, other}]
				return h.packets, h.alive
			}
		}
		return made, err
	}
	report := progress{passes: 2}
	reference, err := rehearse(t.Context(), s, &report)
	if err != nil {
		t.Fatal(err)
	}
	played, err := perform(t.Context(), s, contender{Titrate, begin}, reference, false, &report)
	if err != nil {
		t.Fatal(err)
	}
	conserved(t, &played)
	return admitted, played.Keys[0]
}

// unpaid returns the excess that is left at a time. It also returns the most by which the excess after it is above
// what is left of that if it is repaid at the limit's rate.
func unpaid(admitted []time.Duration, from time.Duration) (debt, most float64) {
	level := judge.Level{Rate: repaidRate, Burst: repaidBurst}
	for _, at := range admitted {
		excess := level.Admit(at, 1)
		if at < from {
			debt = excess + repaidRate*at.Seconds()
			continue
		}
		most = max(most, excess-max(0, debt-repaidRate*at.Seconds()))
	}
	return max(0, debt-repaidRate*from.Seconds()), most
}

// A gateway that begins to use a key after a cut repays with the others, also where each key has one owner. That owner
// may not know of the last burst of the debt: that is sent with the requests of gateways that know it.
func TestAGatewayThatComesLaterRepaysToo(t *testing.T) {
	t.Parallel()
	limit := judge.Limit{Rate: repaidRate, Burst: repaidBurst}
	most, _ := limit.Slack(3, judge.Lag(3, 10*time.Millisecond, false))
	for i := range 2 * seedsOf(24) {
		seed, everybody := i/2, int(i%2)
		t.Run(fmt.Sprintf("%d, %d", seed, everybody), func(t *testing.T) {
			t.Parallel()
			s, heal := cutOver(quotav1.Precision_PRECISION_UNSPECIFIED, 3, seed)
			s.Gossip.Everybody = everybody
			s.Resources[1].(*quotav1.Limit).Key = quotav1.Key_TENANT
			first := &s.Clients[0]
			delete(first.Route.Weights, "gw-3")
			first.Demand.Points = append(first.Demand.Points, scenario.Point{At: heal + joins})
			s.Clients = append(s.Clients, scenario.Client{Name: "later", Tenant: "acme", Cost: 1,
				Route: scenario.Route{Kind: scenario.Pinned, Replica: "gw-3"}, Demand: scenario.Demand{Random: true,
					Points: []scenario.Point{{}, {At: heal + joins, Rate: 2 * repaidRate}}}})
			admitted, _ := playHealing(t, s)
			debt, unpaid := unpaid(admitted, heal+joins)
			if unpaid > most+repaidBurst {
				t.Errorf("the excess is %.1f above what is left of the debt (%.1f), want %.1f at most", unpaid, debt,
					most+repaidBurst)
			}
		})
	}
}
