package containers

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/dev/load"
	"github.com/titrate/titrate/lab/dev/scenario"
	"github.com/titrate/titrate/lab/dev/verdict"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	poolCapacity = 200.0
	limitRate    = 40.0
	limitBurst   = 40.0
)

// TestPartition: two gateways hold one limit and share one pool; one agent is cut off the mesh and
// comes back. The admitted rate keeps within its bounds all the time, nothing fails.
func TestPartition(t *testing.T) {
	c := startCluster(t, 2*poolCapacity, 2)
	configure(t, c.api)
	s := partitionScenario()
	plan := load.NewPlan(s)
	awaitEnforcement(t, c)
	began := time.Now()
	go faults(t, c, s, began)
	records, err := (&load.Generator{URLs: c.gateways}).Run(t.Context(), s, plan, began)
	if err != nil {
		t.Fatal(err)
	}
	v := verdict.Judge(s, records)
	if v.Void {
		t.Skipf("the load generator fell behind, the run proves nothing: %v", v.VoidReasons)
	}
	for _, check := range v.Checks {
		t.Logf("%-28s %-10s %-8s %8.2f bound %8.2f", check.Name, check.Phase, check.Subject, check.Value, check.Bound)
		if !check.Pass {
			t.Errorf("%s %s %s: %.2f is beyond %.2f", check.Name, check.Phase, check.Subject, check.Value, check.Bound)
		}
	}
}

// partitionScenario: a tenant with one client that goes over its limit, and two that want more than
// the pool. The client begins below its limit: gateways that all start cold within one gossip lag may
// each spend a burst (docs/guarantees.md), which is another test's.
func partitionScenario() *scenario.Scenario {
	client := func(name string, rate float64, limit *scenario.Limit) scenario.Client {
		rates := []float64{rate, rate, rate, rate}
		if limit != nil {
			rates[0] = limit.Rate / 2
		}
		return scenario.Client{Name: name, Process: scenario.Poisson, Rates: rates, Limit: limit}
	}
	return &scenario.Scenario{
		Version:  scenario.Version,
		Seed:     1,
		Pool:     scenario.Pool{Name: "api", Capacity: poolCapacity},
		Gateways: []scenario.Gateway{{Name: "gateway-1", Weight: 2}, {Name: "gateway-2", Weight: 1}},
		Tenants: []scenario.Tenant{
			{Name: "acme", Weight: 1, Clients: []scenario.Client{
				client("limited", 2*limitRate, &scenario.Limit{Rate: limitRate, Burst: limitBurst})}},
			{Name: "bolt", Weight: 1, Clients: []scenario.Client{client("bolt-1", 60, nil), client("bolt-2", 60, nil)}},
			{Name: "core", Weight: 1, Clients: []scenario.Client{client("core-1", 90, nil)}},
		},
		Phases: []scenario.Phase{
			{Name: "warm", Start: 0, End: 5, Settle: 2},
			{Name: "whole", Start: 5, End: 11},
			{Name: "cut", Start: 11, End: 17,
				Events: []scenario.Event{{At: 11.5, Fault: scenario.CutAgent, Target: "gateway-2"}}},
			{Name: "healed", Start: 17, End: 25,
				Events: []scenario.Event{{At: 17, Fault: scenario.HealAgent, Target: "gateway-2"}}},
		},
	}
}

// faults plays the scenario's events.
func faults(t *testing.T, c *cluster, s *scenario.Scenario, began time.Time) {
	for _, phase := range s.Phases {
		for _, event := range phase.Events {
			select {
			case <-time.After(time.Until(began.Add(time.Duration(event.At * float64(time.Second))))):
			case <-t.Context().Done():
				return
			}
			if event.Fault == scenario.CutAgent {
				c.cut(t, 1)
			} else {
				c.heal(t, 1)
			}
		}
	}
}

// configure applies pool, tenants and limit as an API owner would.
func configure(t *testing.T, address string) {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	request := &quotav1.ApplyRequest{Resources: []*quotav1.Resource{
		{Kind: &quotav1.Resource_Pool{Pool: &quotav1.Pool{Name: "pools/api", Capacity: poolCapacity}}},
		{Kind: &quotav1.Resource_Tenant{Tenant: &quotav1.Tenant{Name: "tenants/acme", Weight: 1}}},
		{Kind: &quotav1.Resource_Tenant{Tenant: &quotav1.Tenant{Name: "tenants/bolt", Weight: 1}}},
		{Kind: &quotav1.Resource_Tenant{Tenant: &quotav1.Tenant{Name: "tenants/core", Weight: 1}}},
		{Kind: &quotav1.Resource_Limit{Limit: &quotav1.Limit{Name: "tenants/acme/limits/each", Rate: "40/s",
			Burst: limitBurst}}},
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := quotav1.NewQuotaServiceClient(conn).Apply(ctx, request, grpc.WaitForReady(true)); err != nil {
		t.Fatalf("apply: %v", err)
	}
}

// awaitEnforcement waits until every gateway knows the configuration: a request of a tenant that
// does not exist is refused only then.
func awaitEnforcement(t *testing.T, c *cluster) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for _, url := range c.gateways {
		for got := 0; got != http.StatusForbidden; got = status(t, url, "nobody") {
			if time.Now().After(deadline) {
				t.Fatalf("gateway %s does not enforce after 30 s: an unknown tenant gets status %d", url, got)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

func status(t *testing.T, url, tenant string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(load.TenantHeader, tenant)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}
