package simulate

import (
	"fmt"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/simulate/measure"
	"github.com/titrate/titrate/lab/simulate/scenario"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// invented is requests with a new name each.
func invented(perSecond int, from, until time.Duration) (d scenario.Demand) {
	step := time.Second / time.Duration(perSecond)
	for at := from; at < until; at += step {
		d.Trace = append(d.Trace, scenario.Arrival{At: at, Client: fmt.Sprintf("name-%d", at), Cost: 1})
	}
	return d
}

// bursts is so many requests of a client at each of some times.
func bursts(client string, n int, at ...time.Duration) (d scenario.Demand) {
	for _, at := range at {
		for i := range n {
			d.Trace = append(d.Trace, scenario.Arrival{At: at + time.Duration(i)*time.Millisecond, Client: client, Cost: 1})
		}
	}
	return d
}

// A client of one tenant invents 1300 names a second at one gateway. Clients of another tenant, and of
// another limit of the same tenant, have one burst over all three gateways as before, while it lasts and
// after it.
func TestInventedNamesTakeNothingFromOthers(t *testing.T) {
	t.Parallel()
	const flood = 30 * time.Second
	s := scenario.New(flood+10*time.Second, 3)
	s.Gossip.Delay, s.Lead = 250*time.Microsecond, 15*time.Second
	limit := func(name string, classes ...string) *quotav1.Limit {
		return &quotav1.Limit{Name: name, Rate: "1/s", Burst: 10, Classes: classes}
	}
	s.Resources = []resource.Message{
		&quotav1.Tenant{Name: "tenants/acme"}, &quotav1.Tenant{Name: "tenants/other"},
		limit("tenants/acme/limits/each", "page"), limit("tenants/acme/limits/logins", "login"),
		limit("tenants/other/limits/each")}
	everywhere := scenario.Route{Kind: scenario.RoundRobin}
	s.Clients = []scenario.Client{
		{Name: "flood", Tenant: "acme", Cost: 1, Classes: []string{"page"}, Demand: invented(1300, 0, flood),
			Route: scenario.Route{Kind: scenario.Pinned, Replica: "gw-1"}},
		{Name: "o", Tenant: "other", Cost: 1, Route: everywhere,
			Demand: bursts("neighbour", 60, 3*time.Second, 12*time.Second, 25*time.Second, 35*time.Second)},
		{Name: "l", Tenant: "acme", Cost: 1, Classes: []string{"login"}, Route: everywhere,
			Demand: bursts("login", 60, 3*time.Second, 12*time.Second, 25*time.Second, 35*time.Second)},
		{Name: "p", Tenant: "acme", Cost: 1, Classes: []string{"page"}, Route: everywhere,
			Demand: bursts("afterwards", 60, flood+3*time.Second)},
	}
	r, err := Run(t.Context(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, client := range []string{"neighbour", "login", "afterwards"} {
		if k := keyOf(t, r, client); k.WorstExcess > 1.5 {
			t.Errorf("%s: %.1f over rate·t + burst", client, k.WorstExcess)
		}
	}
}

func keyOf(t *testing.T, r *Result, client string) measure.Key {
	t.Helper()
	for _, k := range r.Systems[0].Keys {
		if k.Client == client {
			return k
		}
	}
	t.Fatalf("no key of %s", client)
	return measure.Key{}
}

// A client of one tenant invents names of a slow limit, 182 a second of 5/h. Their buckets are full again only
// after 12 minutes, so none of the names is forgotten. Clients of another tenant have one burst over all three
// gateways as before, during the flood and after it. (What happens when the limit has used up its part of the
// room: control/budget, services/agent/tokens: TestNoRoom.)
func TestNamesOfASlowLimitTakeNothingFromOthers(t *testing.T) {
	t.Parallel()
	const flood = 40 * time.Second
	othersAreExact(t, flood+20*time.Second, "5/h", invented(182, 0, flood), 12*time.Second, 30*time.Second,
		flood+10*time.Second)
}

// An attacker sends 12 requests a second in the mean: each 150 s so many new names at once that its limit has
// asked too much, and then waits. Clients of another tenant have one burst all the time.
func TestAPatientAttackerTakesNothingFromOthers(t *testing.T) {
	t.Parallel()
	const every, attack = 150 * time.Second, 1400 * time.Millisecond
	var names scenario.Demand
	var at []time.Duration
	for i := range time.Duration(2) {
		names.Trace = append(names.Trace, invented(1300, i*every, i*every+attack).Trace...)
		at = append(at, i*every+time.Second, i*every+20*time.Second, i*every+100*time.Second)
	}
	othersAreExact(t, 2*every, "1/s", names, at...)
}

// othersAreExact plays a client that invents names of one tenant's limit at one gateway, and a client of
// another tenant that sends six bursts at given times over all gateways.
func othersAreExact(t *testing.T, d time.Duration, rate string, names scenario.Demand, at ...time.Duration) {
	t.Helper()
	s := scenario.New(d, 3)
	s.Gossip.Delay, s.Lead = 250*time.Microsecond, 15*time.Second
	s.Resources = []resource.Message{&quotav1.Tenant{Name: "tenants/acme"}, &quotav1.Tenant{Name: "tenants/other"},
		&quotav1.Limit{Name: "tenants/acme/limits/each", Rate: rate, Burst: 10},
		&quotav1.Limit{Name: "tenants/other/limits/each", Rate: "1/s", Burst: 10}}
	s.Clients = []scenario.Client{
		{Name: "attacker", Tenant: "acme", Cost: 1, Demand: names,
			Route: scenario.Route{Kind: scenario.Pinned, Replica: "gw-1"}},
		{Name: "o", Tenant: "other", Cost: 1, Demand: bursts("neighbour", 60, at...),
			Route: scenario.Route{Kind: scenario.RoundRobin}}}
	r, err := Run(t.Context(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	k := keyOf(t, r, "neighbour")
	if least := 10 * len(at); k.WorstExcess > 1.5 || k.Admitted < least {
		t.Errorf("the neighbour: %.1f over rate·t + burst, %d admitted of %d at least", k.WorstExcess, k.Admitted, least)
	}
}
