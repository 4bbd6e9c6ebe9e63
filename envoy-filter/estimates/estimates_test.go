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
	if cost, _, ok := table.Estimate(k, 0); ok {
		t.Errorf("an estimate of %v before anything was learned", cost)
	}
	table.Learn(k, 0, 3, 0)
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
		if cost, _, ok := table.Estimate(KeyOf(&other), 0); ok {
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
			table.Learn(k, 0, cost, percentile)
			recent := slices.Clone(all[max(0, len(all)-Window):])
			slices.Sort(recent)
			want := recent[int(math.Ceil(float64(percentile)/100*float64(len(recent))))-min(percentile, 1)]
			if percentile == 0 {
				want = 0
				for _, c := range recent {
					want += c / float64(len(recent))
				}
			}
			if got, _, ok := table.Estimate(k, 0); !ok || math.Abs(got-want) > 1e-9 {
				t.Fatalf("percentile %d after %d costs: %v, want %v", percentile, len(all), got, want)
			}
		}
	}
}

// Costs of more than an hour ago count only as far as there are fewer than eight later ones. Without a cost for an hour
// the estimate is not fresh.
func TestEstimatesAge(t *testing.T) {
	for _, c := range []struct {
		old, later int
		want       float64 // the mean of costs of 1000 and of 10
	}{{64, 0, 1000}, {64, 1, (7*1000 + 10) / 8.}, {64, 7, (1000 + 7*10) / 8.}, {64, 8, 10}, {3, 1, (3*1000 + 10) / 4.},
		{64, 64, 10}} {
		var table Table
		k, now := requests("acme", "api"), int64(0)
		for range c.old {
			table.Learn(k, now, 1000, 0)
		}
		if _, fresh, ok := table.Estimate(k, now+int64(Fresh)); !ok || !fresh {
			t.Error("an estimate is not fresh after an hour")
		}
		now += int64(Fresh) + 1
		if cost, fresh, ok := table.Estimate(k, now); !ok || fresh || cost != 1000 {
			t.Errorf("%v after more than an hour, %v and fresh %v", cost, ok, fresh)
		}
		for range c.later {
			table.Learn(k, now, 10, 0)
		}
		if cost, fresh, _ := table.Estimate(k, now); math.Abs(cost-c.want) > 1e-9 || fresh != (c.later > 0) {
			t.Errorf("%d costs of 1000, an hour, %d costs of 10: %v, fresh %v, want %v", c.old, c.later, cost, fresh, c.want)
		}
	}
}

// More keys than the table holds displace the keys whose last cost is the oldest, and no others.
func TestRoomIsBounded(t *testing.T) {
	var table Table
	busy := requests("acme", "api")
	for i := range 10 * Most {
		table.Learn(busy, 0, 7, 0)
		table.Learn(requests(fmt.Sprint("other-", i), "api"), 0, 1, 0)
	}
	if cost, _, ok := table.Estimate(busy, 0); !ok || cost != 7 {
		t.Errorf("the estimate of a busy tenant is %v, %v", cost, ok)
	}
	known := 0
	for i := range 10 * Most {
		if _, _, ok := table.Estimate(requests(fmt.Sprint("other-", i), "api"), 0); ok {
			known++
		}
	}
	if known > Most || known < Most/2 {
		t.Errorf("%d of the others are known, want at most %d and not far less", known, Most)
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	var table Table
	table.Learn(requests("acme", "api"), 0, 1, 0)
	if n := testing.AllocsPerRun(100, func() { table.Estimate(requests("acme", "api"), 0) }); n != 0 {
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
				table.Learn(k, int64(i), 2, 90)
				if cost, _, ok := table.Estimate(k, int64(i)); ok && cost != 2 {
					t.Errorf("an estimate of %v of costs of 2", cost)
				}
			}
		})
	}
	all.Wait()
}
