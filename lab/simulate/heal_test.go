package simulate

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/simulate/scenario"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// A client that has used up its limit then asks for three quarters of the limit. None of its requests is
// refused while an agent is cut off, or after the agent is connected again, though agents pause for a moment
// now and then. Requests that gateways only assumed of each other are no debt: the client asked for more before
// the cut.
func TestAHealRefusesNothingBelowTheLimit(t *testing.T) {
	t.Parallel()
	seeds := []uint64{180, 242, 292, 1114, 1221, 1305, 1476, 1533} // were refused because of assumed requests
	for seed := range seedsOf(40) {
		seeds = append(seeds, seed)
	}
	owners := []scenario.Gossip{{}, {Everybody: 1}, {Shared: -1}} // all agents; one for each key, or each EXACT key
	for i := range len(owners) * len(seeds) {
		seed, o := seeds[i/len(owners)], owners[i%len(owners)]
		t.Run(fmt.Sprintf("%d, %d and %d", seed, o.Everybody, o.Shared), func(t *testing.T) {
			t.Parallel()
			if k := run(t, healed(seed, o), Options{}).Systems[0].Keys[0]; k.Wrongful > 0 {
				t.Errorf("%d of %d requests within the limit were refused", k.Wrongful, k.Within)
			}
			if _, k := playHealing(t, healed(seed, o)); k.Wrongful > 0 {
				t.Errorf("agents notice the heal at different times: %d of %d requests within the limit were refused",
					k.Wrongful, k.Within)
			}
		})
	}
}

// healed is a cut of 2 to 5 s, with pauses of agents that are as long as on a busy machine.
func healed(seed uint64, owners scenario.Gossip) *scenario.Scenario {
	const begins = 10 * time.Second
	r := rand.New(rand.NewPCG(seed, 7)) // the same scenario each time
	between := func(low, high time.Duration) time.Duration { return low + time.Duration(r.Int64N(int64(high-low))) }
	cut := between(2*time.Second, 5*time.Second)
	s := scenario.New(begins+cut+8*time.Second, 3)
	s.Seed, s.Gossip.Delay, s.Gossip.Jitter = seed+1, 200*time.Microsecond, 200*time.Microsecond
	s.Gossip.Everybody, s.Gossip.Shared = owners.Everybody, owners.Shared
	s.Resources = []resource.Message{&quotav1.Tenant{Name: "tenants/acme"},
		&quotav1.Limit{Name: "tenants/acme/limits/each", Rate: "60/s", Burst: 60}}
	s.Clients = []scenario.Client{{Name: "global", Tenant: "acme", Cost: 1,
		Demand: scenario.Demand{Points: []scenario.Point{{Rate: 80}, {At: begins, Rate: 45}}},
		Route:  scenario.Route{Weights: map[string]float64{"gw-1": 6, "gw-2": 3, "gw-3": 1}}}}
	at := begins + 300*time.Millisecond
	s.Events = []scenario.Event{
		{At: at, Kind: scenario.Partition, Groups: [][]string{{"gw-2"}}}, {At: at + cut, Kind: scenario.Heal}}
	pause := between(0, 600*time.Millisecond)
	for now := at - time.Second; now < at+cut+4*time.Second; {
		gateway, long := s.Replicas[r.IntN(3)].Name, between(20*time.Millisecond, 400*time.Millisecond)
		s.Events = append(s.Events, scenario.Event{At: now + pause, Kind: scenario.AgentPaused, Replica: gateway},
			scenario.Event{At: now + pause + long, Kind: scenario.AgentResumed, Replica: gateway})
		now += pause + long
		pause = between(0, 600*time.Millisecond)
	}
	return s
}
