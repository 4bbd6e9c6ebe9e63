package coordinator

import (
	"testing"

	"github.com/titrate/titrate/services/coordinator/allocation"
)

// Tenants with the highest demand have metrics, and those with the highest guarantees, each once.
func TestTenantsWithMetrics(t *testing.T) {
	flow := func(pool, tenant string, demand, guaranteed float64) allocation.FlowShare {
		return allocation.FlowShare{Flow: allocation.Flow{Pool: pool, Tenant: tenant}, Demand: demand,
			Guaranteed: guaranteed}
	}
	flows := []allocation.FlowShare{flow("api", "busy", 50, 0), flow("api", "both", 40, 10), flow("api", "quiet", 1, 20),
		flow("api", "small", 2, 1), flow("api", "none", 3, 0), flow("web", "busy", 5, 0), flow("web", "none", 4, 0)}
	for n, want := range map[int]string{-1: "", 1: "api/busy api/quiet web/busy ",
		2: "api/busy api/both api/quiet web/busy web/none "} {
		got := ""
		for _, f := range top(flows, n) {
			got += f.Pool + "/" + f.Tenant + " "
		}
		if got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
