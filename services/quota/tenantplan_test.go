package quota_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/titrate/titrate/control/config"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// A plan has the standard methods, limits and quotas; it is not deleted while tenants are on it.
func TestPlanResources(t *testing.T) {
	c, ctx := serve(t, nil), t.Context()
	apply(t, c, api)
	plan, err := c.CreatePlan(ctx, &quotav1.CreatePlanRequest{PlanId: "gold", Plan: &quotav1.Plan{}})
	if err != nil || plan.Name != "plans/gold" || plan.Weight != 1 || plan.Etag == "" {
		t.Fatalf("%v (%v)", plan, err)
	}
	plan, err = c.UpdatePlan(ctx, &quotav1.UpdatePlanRequest{
		Plan:       &quotav1.Plan{Name: plan.Name, Weight: 2, Etag: plan.Etag},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"weight"}}})
	if err != nil || plan.Weight != 2 {
		t.Fatalf("%v (%v)", plan, err)
	}
	l, err := c.CreateLimit(ctx, &quotav1.CreateLimitRequest{Parent: "plans/gold", LimitId: "each",
		Limit: &quotav1.Limit{Rate: "5/s"}})
	if err != nil || l.Name != "plans/gold/limits/each" || l.Burst != 5 {
		t.Fatalf("%v (%v)", l, err)
	}
	apply(t, c, &quotav1.Quota{Name: "plans/gold/quotas/api", Guaranteed: 3},
		&quotav1.Tenant{Name: "tenants/a", Plan: "gold"},
		&quotav1.Tenant{Name: "tenants/b"}, &quotav1.Limit{Name: "tenants/b/limits/own", Rate: "1/s"})
	for parent, want := range map[string]string{"plans/gold": "plans/gold/limits/each", "plans/*": "plans/gold/limits/each",
		"tenants/*": "tenants/b/limits/own", "tenants/a": ""} {
		got, err := c.ListLimits(ctx, &quotav1.ListLimitsRequest{Parent: parent})
		var names []string
		for _, l := range got.GetLimits() {
			names = append(names, l.Name)
		}
		if strings.Join(names, " ") != want || err != nil {
			t.Errorf("%s has %q (%v), want %q", parent, names, err, want)
		}
	}
	_, err = c.ListQuotas(ctx, &quotav1.ListQuotasRequest{Parent: "plans/tin"})
	wantCode(t, err, codes.NotFound, "plans/tin")
	q, err := c.ListQuotas(ctx, &quotav1.ListQuotasRequest{Parent: "plans/gold"})
	if err != nil || len(q.GetQuotas()) != 1 {
		t.Errorf("%v (%v)", q, err)
	}
	a, err := c.GetTenant(ctx, &quotav1.GetTenantRequest{Name: "tenants/a"})
	if err != nil || a.Plan != "gold" || a.Weight != 0 {
		t.Errorf("%v (%v): its weight is the plan's", a, err)
	}
	if list, err := c.ListPlans(ctx, &quotav1.ListPlansRequest{}); err != nil || len(list.GetPlans()) != 1 {
		t.Errorf("%v (%v)", list, err)
	}

	_, err = c.DeletePlan(ctx, &quotav1.DeletePlanRequest{Name: "plans/gold", Force: true})
	wantCode(t, err, codes.FailedPrecondition, "on this plan are tenants/a; give them another plan first, or none")
	_, err = c.UpdateTenant(ctx, &quotav1.UpdateTenantRequest{Tenant: &quotav1.Tenant{Name: "tenants/a", Plan: "tin"}})
	wantCode(t, err, codes.FailedPrecondition, "plans/tin")
	apply(t, c, &quotav1.Tenant{Name: "tenants/a"})
	_, err = c.DeletePlan(ctx, &quotav1.DeletePlanRequest{Name: "plans/gold"})
	wantCode(t, err, codes.FailedPrecondition, "plans/gold/limits/each")
	if _, err = c.DeletePlan(ctx, &quotav1.DeletePlanRequest{Name: "plans/gold", Force: true}); err != nil {
		t.Error(err)
	}
	_, err = c.GetLimit(ctx, &quotav1.GetLimitRequest{Name: "plans/gold/limits/each"})
	wantCode(t, err, codes.NotFound, "plans/gold/limits/each")
	_, err = c.CreateTenant(ctx, &quotav1.CreateTenantRequest{Tenant: &quotav1.Tenant{Name: "tenants/-", Plan: "gold"}})
	if wantCode(t, err, codes.InvalidArgument, "none of tenants/-"); !slices.Equal(fields(err), []string{"tenant.plan"}) {
		t.Errorf("blames %v", fields(err))
	}
}

// The limits of a plan count among those of its tenants.
func TestPlansCountInTheNumberOfLimits(t *testing.T) {
	c := serve(t, nil)
	limits := func(parent string, n int) (out []*quotav1.Resource) {
		for i := range n {
			out = append(out, envelope(&quotav1.Limit{Name: fmt.Sprintf("%s/limits/%s%d", parent, parent[:1], i), Rate: "1/s"}))
		}
		return out
	}
	plan := append(limits("plans/gold", 60), envelope(&quotav1.Plan{Name: "plans/gold"}))
	if _, err := c.Apply(t.Context(), &quotav1.ApplyRequest{Resources: plan}); err != nil {
		t.Fatal(err)
	}
	own := append(limits("tenants/a", 5), envelope(&quotav1.Tenant{Name: "tenants/a"}))
	if _, err := c.Apply(t.Context(), &quotav1.ApplyRequest{Resources: own}); err != nil {
		t.Fatal(err)
	}
	_, err := c.UpdateTenant(t.Context(), &quotav1.UpdateTenantRequest{
		Tenant: &quotav1.Tenant{Name: "tenants/a", Plan: "gold"}})
	wantCode(t, err, codes.FailedPrecondition, fmt.Sprintf(
		"tenants/a would have 65, those of its plan and of tenants/- included, and a gateway takes %d", config.MaxLimits))
	_, err = c.Apply(t.Context(), &quotav1.ApplyRequest{Resources: limits("plans/gold", 65)})
	wantCode(t, err, codes.FailedPrecondition, "plans/gold would have 65")
}

// Why finds a limit of the tenant's plan, and says that there is one.
func TestWhyOfAPlan(t *testing.T) {
	c := serve(t, &present{activity: []*quotav1.Activity{{Tenant: "a", Pool: "api", Limit: "each", Gateway: "gw-1", Refused: 7,
		ClientLimit: 7, Window: durationpb.New(60e9)}}})
	apply(t, c, api, &quotav1.Plan{Name: "plans/gold"}, &quotav1.Tenant{Name: "tenants/a", Plan: "gold"},
		&quotav1.Limit{Name: "plans/gold/limits/each", Rate: "5/s"}, &quotav1.Limit{Name: "tenants/-/limits/each", Rate: "1/s"})
	got, err := c.Why(t.Context(), &quotav1.WhyRequest{Tenant: "tenants/a"})
	if err != nil || len(got.GetLimits()) != 1 || got.GetLimits()[0].GetLimit() != "plans/gold/limits/each" ||
		got.GetLimits()[0].GetRate() != 5 {
		t.Fatalf("%v (%v)", got, err)
	}
	if notes := strings.Join(got.GetNotes(), "\n"); !strings.Contains(notes, "a is on plan gold") {
		t.Errorf("notes %q", notes)
	}
}
