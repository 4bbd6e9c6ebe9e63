package simulate

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/lab/simulate/measure"
	"github.com/titrate/titrate/lab/simulate/scenario"
	"github.com/titrate/titrate/lab/simulate/system"
	"github.com/titrate/titrate/lab/simulate/world"
	"github.com/titrate/titrate/proto/link"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// partsLead is a quiet time in which gateways get their standing parts.
const partsLead = 15 * time.Second

// playAsking plays a scenario, and returns how many questions the owners of keys were asked.
func playAsking(t *testing.T, s *scenario.Scenario) (played measure.System, asked int) {
	t.Helper()
	begin := func(stage system.Stage) (system.System, error) {
		made, err := world.New(stage)
		if err == nil {
			made.(*world.World).TamperLink = func(_ string, m link.Message) []link.Message {
				if q, is := m.(*exchange.TokenRequests); is {
					for i := range q.List {
						if q.List[i].Need > 0 {
							asked++
						}
					}
				}
				return []link.Message{m}
			}
		}
		return made, err
	}
	report := progress{passes: 2}
	reference, err := rehearse(t.Context(), s, &report)
	if err != nil {
		t.Fatal(err)
	}
	if played, err = perform(t.Context(), s, contender{Titrate, begin}, reference, false, &report); err != nil {
		t.Fatal(err)
	}
	conserved(t, &played)
	return played, asked
}

// parted is a scenario of clients of a limit who come after three gateways have got their standing parts.
func parted(duration time.Duration, rate string, burst float64, clients int,
	demand scenario.Demand) *scenario.Scenario {
	s := scenario.New(duration, 3)
	s.Gossip.Delay, s.Lead = 250*time.Microsecond, partsLead
	s.Resources = []resource.Message{&quotav1.Tenant{Name: "tenants/acme"},
		&quotav1.Limit{Name: "tenants/acme/limits/each", Rate: rate, Burst: burst, Precision: quotav1.Precision_EXACT}}
	s.Clients = []scenario.Client{{Name: "app", Tenant: "acme", Cost: 1, Count: clients, Demand: demand}}
	return s
}

// Of clients that use 2 to 60 % of 100 a minute, at most one request in a hundred asks the owner of its key, and none
// is refused.
func TestClientsBelowTheirLimitAskNobody(t *testing.T) {
	for _, part := range []float64{.02, .1, .3, .6} {
		played, asked := playAsking(t, parted(time.Minute, "100/min", 100, 40, scenario.Poisson(part*100/60)))
		offered, refused := 0, 0
		for i := range played.Keys {
			k := &played.Keys[i]
			offered, refused = offered+k.Offered, refused+k.Rejected
			if k.WorstExcess > 0 {
				t.Errorf("%g %%: %s: %.1f over rate·t + burst", 100*part, k.Client, k.WorstExcess)
			}
		}
		t.Logf("at %g %% of the limit %d of %d requests asked, %d were refused", 100*part, asked, offered, refused)
		if asked*100 > offered || refused > 0 {
			t.Errorf("at %g %% of the limit %d of %d requests asked, %d were refused", 100*part, asked, offered, refused)
		}
	}
}

// Gateways and agents come, end, crash and are cut off while a client asks for three times its limit. It is admitted
// no more than the limit, and what the guarantees allow for the fault.
func TestPartsThroughEveryChange(t *testing.T) {
	const rate, burst, at = 2., 60., 20 * time.Second
	for _, c := range []struct {
		name   string
		events []scenario.Event
		slack  float64 // beyond 1 + 8·r·τ
	}{
		{"nothing", nil, 0},
		{"join", []scenario.Event{{At: at, Kind: scenario.Join, Replica: "gw-new"}}, 0},
		{"leave", []scenario.Event{{At: at, Kind: scenario.Leave, Replica: "gw-2"}}, 0},
		{"leave and join", []scenario.Event{{At: at, Kind: scenario.Leave, Replica: "gw-2"},
			{At: at + 20*time.Second, Kind: scenario.Join, Replica: "gw-2"}}, 0},
		{"crash", []scenario.Event{{At: at, Kind: scenario.Crash, Replica: "gw-2"}}, 0},
		{"restart", []scenario.Event{{At: at, Kind: scenario.Restart, Replica: "gw-2"}}, 0},
		// The ledger of a gateway without an agent decides: rate·w/W for so long, and what is left of its burst. New owners
		// wait for all statements first.
		{"agent lost for 3 s", []scenario.Event{{At: at, Kind: scenario.AgentLost, Replica: "gw-2"},
			{At: at + 3*time.Second, Kind: scenario.AgentBack, Replica: "gw-2"}}, rate * 4},
		{"agent lost for 20 s", []scenario.Event{{At: at, Kind: scenario.AgentLost, Replica: "gw-2"},
			{At: at + 20*time.Second, Kind: scenario.AgentBack, Replica: "gw-2"}}, rate * 21},
		{"agent paused for 20 s", []scenario.Event{{At: at, Kind: scenario.AgentPaused, Replica: "gw-2"},
			{At: at + 20*time.Second, Kind: scenario.AgentResumed, Replica: "gw-2"}}, rate * 21},
		{"cut off for 40 s", []scenario.Event{{At: at, Kind: scenario.Partition, Groups: [][]string{{"gw-2"}}},
			{At: at + 40*time.Second, Kind: scenario.Heal}}, burst + rate*41},
	} {
		for _, demand := range []scenario.Demand{scenario.Poisson(3 * rate), fullBursts(burst, 40*time.Second)} {
			s := parted(90*time.Second, "2/s", burst, 1, demand)
			s.Events = c.events
			played, _ := playAsking(t, s)
			k := &played.Keys[0]
			t.Logf("%s: %.1f over rate·t + burst; %d of %d requests admitted, a central bucket %d", c.name,
				k.WorstExcess, k.Admitted, k.Offered, k.Central)
			if most := 1 + 8*rate*.001 + c.slack; k.WorstExcess > most {
				t.Errorf("%s: %.1f over rate·t + burst, want %.1f", c.name, k.WorstExcess, most)
			}
		}
	}
}

// fullBursts is a whole burst at once, three times.
func fullBursts(burst float64, every time.Duration) (d scenario.Demand) {
	for at := time.Second; at <= time.Second+2*every; at += every {
		for range int(burst) {
			d.Trace = append(d.Trace, scenario.Arrival{At: at, Client: "app", Cost: 1})
		}
	}
	return d
}
