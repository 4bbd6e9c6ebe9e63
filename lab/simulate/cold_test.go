package simulate

import (
	"testing"
	"time"

	"github.com/titrate/titrate/lab/judge"
	"github.com/titrate/titrate/lab/simulate/scenario"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// local is a scenario with one LOCAL limit. Packets, links and processes have random delays, so that the claims
// of two gateways may reach a third in one message.
func local(duration time.Duration, gateways int, seed uint64, rate string) *scenario.Scenario {
	s := scenario.New(duration, gateways)
	s.Seed, s.Gossip.Jitter = seed, 10*time.Millisecond
	s.Resources = []resource.Message{&quotav1.Tenant{Name: "tenants/acme"}, &quotav1.Limit{
		Name: "tenants/acme/limits/each", Rate: rate, Burst: 10, Precision: quotav1.Precision_LOCAL}}
	return s
}

// seedsOf returns the number of seeds to play: a quarter of all in short runs.
func seedsOf(all uint64) uint64 {
	if testing.Short() {
		return all / 4
	}
	return all
}

// A client sends many requests to cold gateways, one right after the other. Each gateway may admit a burst
// once. All these requests are debt: when the client comes again, after the time of two bursts, it gets no more
// than it has repaid.
func TestColdGatewaysForgetNoDebt(t *testing.T) {
	t.Parallel()
	const rate, burst, rounds = 10, 10, 5
	seeds := seedsOf(20)
	for _, k := range []int{2, 3, 5, 10} {
		for _, gap := range []time.Duration{time.Millisecond, 20 * time.Millisecond} {
			slack, cold := judge.Limit{Rate: rate, Burst: burst}.Slack(k, judge.Lag(k, 20*time.Millisecond, false))
			var trace []scenario.Arrival
			for i := range rounds * k * burst {
				at := time.Duration(i/(k*burst))*2*time.Second + time.Duration(i/burst%k)*gap +
					time.Duration(i%burst)*10*time.Microsecond
				trace = append(trace, scenario.Arrival{At: at, Client: "app", Cost: 1})
			}
			worst := 0.0
			for seed := range seeds {
				s := local(10*time.Second, k, seed, "10/s")
				s.Clients = []scenario.Client{{Name: "app", Tenant: "acme", Cost: 1,
					Demand: scenario.Demand{Trace: trace}, Route: scenario.Route{Kind: scenario.Moving, Every: gap}}}
				worst = max(worst, run(t, s, Options{}).Systems[0].Keys[0].WorstExcess)
			}
			t.Logf("%d gateways, %v apart: %.1f over rate·t + burst at most, %.1f allowed", k, gap, worst, slack+cold)
			if worst > slack+cold {
				t.Errorf("%d gateways, %v apart: %.1f over rate·t + burst, %.1f allowed", k, gap, worst, slack+cold)
			}
		}
	}
}

// Two sides of a cut admit up to a bucket each. After the cut the excess is repaid: a client that always asks
// for twice its limit has got as much as a central bucket admits, within the slack.
func TestDebtOfACutIsRepaid(t *testing.T) {
	t.Parallel()
	const rate, burst, begins = 5, 10, 10 * time.Second
	seeds := seedsOf(20)
	slack, _ := judge.Limit{Rate: rate, Burst: burst}.Slack(3, judge.Lag(3, 20*time.Millisecond, false))
	for _, cut := range []time.Duration{4080 * time.Millisecond, 8 * time.Second} {
		worst, at := 0.0, uint64(0)
		for seed := range seeds {
			s := local(35*time.Second, 3, seed+1, "5/s")
			s.Clients = []scenario.Client{{Name: "small", Tenant: "acme", Cost: 1,
				Demand: scenario.Demand{Points: []scenario.Point{{Rate: 3}, {At: begins, Rate: 2 * rate}}, Random: true},
				Route:  scenario.Route{Weights: map[string]float64{"gw-1": 6, "gw-2": 3, "gw-3": 1}}}}
			s.Events = []scenario.Event{
				{At: begins + time.Second, Kind: scenario.Partition, Groups: [][]string{{"gw-2"}}},
				{At: begins + time.Second + cut, Kind: scenario.Heal}}
			k := run(t, s, Options{}).Systems[0].Keys[0]
			if more := float64(k.Admitted - k.Central); more > worst {
				worst, at = more, seed+1
			}
		}
		t.Logf("cut off for %v: %.0f more than a central bucket at most, %.1f allowed", cut, worst, slack)
		if worst > slack {
			t.Errorf("cut off for %v, seed %d: %.0f more than a central bucket, %.1f allowed", cut, at, worst, slack)
		}
	}
}
