package simulate

import (
	"testing"
	"time"

	"github.com/titrate/titrate/lab/simulate/scenario"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// Two gateways use a whole pool while the third has no requests. The agent of one is lost at the moment at
// which the third gets requests. The gateway without an agent does not learn of them and keeps its half: the
// two others share the other half.
func TestGatewayWithoutAgentMakesNoRoom(t *testing.T) {
	t.Parallel()
	const begins = 20 * time.Second
	s := scenario.New(begins+8*time.Second, 3)
	s.Warmup, s.Gossip.Delay = 5*time.Second, 2*time.Millisecond
	s.Resources = []resource.Message{&quotav1.Pool{Name: "pools/api", Capacity: 60},
		&quotav1.Tenant{Name: "tenants/acme"}}
	for gateway, demand := range map[string]scenario.Demand{
		"gw-1": scenario.Constant(42), "gw-2": {Points: []scenario.Point{{At: begins, Rate: 42}}},
		"gw-3": scenario.Constant(42),
	} {
		s.Clients = append(s.Clients, scenario.Client{Name: "at-" + gateway, Tenant: "acme", Pool: "api", Cost: 1,
			Demand: demand, Route: scenario.Route{Kind: scenario.Pinned, Replica: gateway}})
	}
	s.Events = []scenario.Event{{At: begins - 10*time.Millisecond, Kind: scenario.AgentLost, Replica: "gw-3"}}
	r, err := Run(t.Context(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p := r.Systems[0].Pools[0]; p.WorstExcess > 20 {
		t.Errorf("%.1f beyond capacity·t, %.0f in the highest second of a pool of 60/s", p.WorstExcess, p.HighestSecond)
	}
}
