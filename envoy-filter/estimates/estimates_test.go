package estimates

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// requests is the key of a tenant's requests on a route.
func requests(tenant, route string) Key { return KeyOf(&Kind{Tenant: tenant, Route: route}) }

func TestNothingIsKnownAtFirst(t *testing.T) {
	var table Table
	k := requests("acme", "api")
	if cost, ok := table.Estimate(k); ok {
		t.Errorf("an estimate of %v before anything was learned", cost)
	}
	table.Learn(k, 3, 0)
	for what, other := range map[string]Kind{
		"tenant": {Tenant: "bolt", Route: "api"}, "route": {Tenant: "acme", Route: "b"},
		"split of the names": {Tenant: "acm", Route: "eapi"}, "pool": {Tenant: "acme", Pool: "api"},
		"place":      {Tenant: "acme", Route: "api", Cost: 1},
		"source":     {Tenant: "acme", Route: "api", From: 1},
		"usage":      {Tenant: "acme", Route: "api", Usage: 1},
		"percentile": {Tenant: "acme", Route: "api", Percentile: 1},
		"field":      {Tenant: "acme", Route: "api", Name: "x"},
		"namespace":  {Tenant: "acme", Route: "api", Space: "x"},
	} {
		if cost, ok := table.Estimate(KeyOf(&other)); ok {
			t.Errorf("another %s has the estimate %v", what, cost)
		}
	}
}

// The estimate is the mean, or the percentile by the nearest rank, of the last 64 costs.
func TestEstimateOfRecentCosts(t *testing.T) {
	for _, percentile := range []int{0, 50, 90, 99} {
		var table Table
		var all []float64
		k, r := requests("acme", "api"), rand.New(rand.NewPCG(1, 2))
		for range 200 {
			cost := math.Exp(r.NormFloat64())
			all = append(all, cost)
			table.Learn(k, cost, percentile)
			recent := slices.Clone(all[max(0, len(all)-Window):])
			slices.Sort(recent)
			want := recent[int(math.Ceil(float64(percentile)/100*float64(len(recent))))-min(percentile, 1)]
			if percentile == 0 {
				want = 0
				for _, c := range recent {
					want += c / float64(len(recent))
				}
			}
			if got, ok := table.Estimate(k); !ok || math.Abs(got-want) > 1e-9 {
				t.Fatalf("percentile %d after %d costs: %v, want %v", percentile, len(all), got, want)
			}
		}
	}
}

// More keys than the table holds displace the keys whose last cost is the oldest, and no others.
func TestRoomIsBounded(t *testing.T) {
	var table Table
	busy := requests("acme", "api")
	for i := range 10 * Most {
		table.Learn(busy, 7, 0)
		table.Learn(requests(fmt.Sprint("invented-", i), "api"), 1, 0)
	}
	if cost, ok := table.Estimate(busy); !ok || cost != 7 {
		t.Errorf("the estimate of a busy tenant is %v, %v", cost, ok)
	}
	known := 0
	for i := range 10 * Most {
		if _, ok := table.Estimate(requests(fmt.Sprint("invented-", i), "api")); ok {
			known++
		}
	}
	if known > Most || known < Most/2 {
		t.Errorf("%d of the others are known, want at most %d and not far less", known, Most)
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	var table Table
	table.Learn(requests("acme", "api"), 1, 0)
	if n := testing.AllocsPerRun(100, func() { table.Estimate(requests("acme", "api")) }); n != 0 {
		t.Errorf("%v allocations for an estimate", n)
	}
}

func TestConcurrentUse(t *testing.T) {
	var table Table
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 5000 {
				k := requests(fmt.Sprint(i%50), "api")
				table.Learn(k, 2, 90)
				if cost, ok := table.Estimate(k); ok && cost != 2 {
					t.Errorf("an estimate of %v of costs of 2", cost)
				}
			}
		})
	}
	all.Wait()
}
