package quota_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota"
)

// Each guard stands for what it is there for, and for nothing else.
func TestGuards(t *testing.T) {
	live := &present{}
	c := serve(t, live)
	limit := func(rate string) *quotav1.Limit {
		return &quotav1.Limit{Name: "tenants/acme/limits/l", Rate: rate, Identity: "user"}
	}
	quotaOf := func(guaranteed, most float64) *quotav1.Quota {
		return &quotav1.Quota{Name: "tenants/acme/quotas/api", Guaranteed: guaranteed, Max: &most}
	}
	apply(t, c, api, acme, limit("100/min"), quotaOf(20, 50))
	flow := func(e *quotav1.FlowEffect) *quota.Rehearsal {
		e.Tenant, e.Pool = "tenants/acme", "pools/api"
		return &quota.Rehearsal{Flows: []*quotav1.FlowEffect{e}}
	}
	none := &quota.Rehearsal{}
	for _, p := range []struct {
		name      string
		put       proto.Message
		deletions []string
		rehearsal *quota.Rehearsal
		want      string
		says      string
	}{
		{"nothing", api, nil, none, "", ""},
		{"a little less", &quotav1.Pool{Name: "pools/api", Capacity: 50}, nil, none, "", ""},
		{"capacity", &quotav1.Pool{Name: "pools/api", Capacity: 49}, nil, none, "cut-half", "falls from 100.0/s to 49.0/s"},
		{"rate, in another unit", limit("2000/h"), nil, none, "cut-half", "rate"},
		{"guarantee", quotaOf(5, 50), nil, none, "cut-half", "guaranteed"},
		{"max", quotaOf(20, 20), nil, none, "cut-half", "max"},
		{"the share of one that uses it", &quotav1.Pool{Name: "pools/api", Capacity: 99}, nil,
			flow(&quotav1.FlowEffect{DemandBefore: 60, DemandAfter: 60, ShareBefore: 60, ShareAfter: 20, OverAfter: 40}),
			"cut-half", "falls from 60.0/s to 20.0/s"},
		{"the share of one that does not", &quotav1.Pool{Name: "pools/api", Capacity: 99}, nil,
			flow(&quotav1.FlowEffect{DemandBefore: 1, DemandAfter: 1, ShareBefore: 60, ShareAfter: 20}), "", ""},
		{"a tenant in use", api, []string{"tenants/acme", "tenants/acme/limits/l", "tenants/acme/quotas/api"},
			flow(&quotav1.FlowEffect{DemandBefore: 5, ShareBefore: 7}), "delete-in-use", "it asks for 5.0/s of pools/api now"},
		{"a tenant not in use", api, []string{"tenants/acme", "tenants/acme/limits/l", "tenants/acme/quotas/api"},
			flow(&quotav1.FlowEffect{ShareBefore: 7}), "", ""},
		{"guarantees", quotaOf(120, 200), nil, &quota.Rehearsal{Pools: []*quotav1.PoolEffect{{Pool: "pools/api",
			CapacityBefore: 100, CapacityAfter: 100, GuaranteedBefore: 20, GuaranteedAfter: 120}}},
			"guarantees-beyond-capacity", "add up to 120.0/s"},
	} {
		live.rehearsal = p.rehearsal
		ask := &quotav1.ApplyRequest{Resources: []*quotav1.Resource{envelope(p.put)}}
		for _, name := range p.deletions {
			ask.Deletions = append(ask.Deletions, &quotav1.Deletion{Name: name})
		}
		got, err := c.Plan(t.Context(), &quotav1.PlanRequest{Apply: ask})
		if err != nil {
			t.Errorf("%s: %v", p.name, err)
			continue
		}
		var names []string
		said := ""
		for _, g := range got.GetGuards() {
			names, said = append(names, g.GetName()), said+g.GetMessage()
		}
		if strings.Join(names, " ") != p.want || !strings.Contains(said, p.says) {
			t.Errorf("%s: guards %v (%s), want %q with %q", p.name, names, said, p.want, p.says)
		}
	}
}

// A plan changes nothing, holds for the revision that it names, and says when effects are not
// known.
func TestPlan(t *testing.T) {
	live := &present{doubts: map[string][]quota.Doubt{"tenants/acme/limits/l": {{Field: "identity", Message: "unknown"}}}}
	c := serve(t, live)
	first := apply(t, c, api)
	ask := &quotav1.ApplyRequest{Resources: []*quotav1.Resource{envelope(acme),
		envelope(&quotav1.Limit{Name: "tenants/acme/limits/l", Rate: "1/s", Identity: "usr"})}}
	live.err = errors.New("another leads")
	plan, err := c.Plan(t.Context(), &quotav1.PlanRequest{Apply: ask})
	if err != nil || len(plan.GetChanges()) != 2 || plan.GetRevision() != first.GetRevision() ||
		plan.GetEffectsUnknown() != "another leads" {
		t.Fatalf("%v (%v)", plan, err)
	}
	var names []string
	for _, g := range plan.GetGuards() {
		names = append(names, g.GetName())
	}
	if slices.Sort(names); !slices.Equal(names, []string{"effects-unknown", "unknown-name"}) {
		t.Errorf("guards %v", names)
	}
	if list, err := c.ListTenants(t.Context(), &quotav1.ListTenantsRequest{}); err != nil || len(list.GetTenants()) > 0 {
		t.Errorf("after the plan: %v (%v)", list, err)
	}
	ask.ExpectedRevision = plan.GetRevision()
	done, err := c.Apply(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	plan, err = c.Plan(t.Context(), &quotav1.PlanRequest{Rollback: first.GetRevision()})
	if err != nil || len(plan.GetChanges()) != 2 || plan.GetRevision() != done.GetRevision() ||
		plan.GetChanges()[0].GetAfter() != nil {
		t.Errorf("%v (%v)", plan, err)
	}
	_, err = c.Plan(t.Context(), &quotav1.PlanRequest{})
	wantCode(t, err, codes.InvalidArgument, "either apply or rollback")
}
