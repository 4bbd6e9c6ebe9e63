package quota_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/quota/quotatest"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/store/storetest"
)

// low is a ceiling of 10/s; meanwhile is called when the limit "last" is looked at.
type low struct{ meanwhile func() }

func (low) Bounded(context.Context, string) bool { return true }

func (l low) Write(_ context.Context, m, _ resource.Message) error {
	if m.GetName() == "tenants/acme/limits/last" {
		l.meanwhile()
	}
	if rate, _ := resource.ParseRate(m.(*quotav1.Limit).GetRate()); rate > 10 {
		return status.Error(codes.PermissionDenied, "above the ceiling")
	}
	return nil
}

func (low) Delete(context.Context, string, resource.Message) error { return nil }
func (low) TakeOver(context.Context, string) error {
	return status.Error(codes.PermissionDenied, "not bob")
}

// An editor without the right cannot take resources from the set that owns them; a resource without an owner, or of the
// editor's set, it may write.
func TestTakingOverAsksForARight(t *testing.T) {
	to := storetest.Open(t)
	admin := quotatest.Client(t, quota.New(to, nil))
	editor := quotatest.Client(t, quota.New(to, nil).Bound(low{func() {}}))
	apply := func(by quotav1.QuotaServiceClient, set string, names ...string) error {
		r := &quotav1.ApplyRequest{Set: set, TakeOver: true}
		for _, name := range names {
			r.Resources = append(r.Resources, resource.Of(&quotav1.Limit{Name: "tenants/acme/limits/" + name, Rate: "1/s"}))
		}
		_, err := by.Apply(t.Context(), r)
		return err
	}
	if _, err := admin.CreateTenant(t.Context(), &quotav1.CreateTenantRequest{TenantId: "acme",
		Tenant: &quotav1.Tenant{}}); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		who   string
		by    quotav1.QuotaServiceClient
		set   string
		names []string
		want  codes.Code
	}{
		{"admin", admin, "git", []string{"a", "b"}, codes.OK},
		{"editor takes over", editor, "mine", []string{"a", "c"}, codes.PermissionDenied},
		{"editor takes what is free", editor, "mine", []string{"c"}, codes.OK},
		{"editor within its set", editor, "mine", []string{"c", "d"}, codes.OK},
		{"admin takes over", admin, "git", []string{"a", "c"}, codes.OK},
	} {
		if err := apply(x.by, x.set, x.names...); status.Code(err) != x.want {
			t.Errorf("%s: %v, want %v", x.who, err, x.want)
		}
	}
	// Nor may it delete them, by themselves or with their tenant, and then create them in its own set.
	_, err := editor.DeleteLimit(t.Context(), &quotav1.DeleteLimitRequest{Name: "tenants/acme/limits/a"})
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("delete what another set owns: %v", err)
	}
	_, err = editor.DeleteTenant(t.Context(), &quotav1.DeleteTenantRequest{Name: "tenants/acme", Force: true})
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("delete the tenant with what another set owns: %v", err)
	}
	own := &quotav1.ApplyRequest{Set: "mine", Deletions: []*quotav1.Deletion{{Name: "tenants/acme/limits/d"}},
		Resources: []*quotav1.Resource{resource.Of(&quotav1.Limit{Name: "tenants/acme/limits/e", Rate: "1/s"})}}
	if _, err := editor.Apply(t.Context(), own); err != nil {
		t.Errorf("delete what its own set has: %v", err)
	}
}

// An editor may write again what an administrator has given beyond the ceiling, but not what the
// administrator takes back at the same time.
func TestACeilingHoldsWhileOthersWrite(t *testing.T) {
	to := storetest.Open(t)
	set := func(name, rate string) *quotav1.Resource {
		return resource.Of(&quotav1.Limit{Name: "tenants/acme/limits/" + name, Rate: rate})
	}
	put := func(r *quotav1.Resource) {
		m := resource.Unwrap(r)
		resource.FillDefaults(m)
		if _, err := to.Apply(t.Context(), store.Note{}, []store.Change{{Op: store.Put, Resource: m}}); err != nil {
			t.Fatal(err)
		}
	}
	put(resource.Of(&quotav1.Tenant{Name: "tenants/acme"}))
	put(set("given", "100/s"))
	meanwhile := func() {}
	editor := quotatest.Client(t, quota.New(to, nil).Bound(low{func() { meanwhile() }}))
	write := func() error {
		_, err := editor.Apply(t.Context(), &quotav1.ApplyRequest{Resources: []*quotav1.Resource{set("given", "100/s"),
			set("last", "1/s")}})
		return err
	}
	if err := write(); err != nil {
		t.Fatalf("what is stored already: %v", err)
	}
	meanwhile = func() { put(set("given", "5/s")) }
	if err := write(); status.Code(err) != codes.Aborted {
		t.Errorf("what is taken back meanwhile: %v, want ABORTED", err)
	}
	stored, err := editor.GetLimit(t.Context(), &quotav1.GetLimitRequest{Name: "tenants/acme/limits/given"})
	if err != nil || stored.GetRate() != "5/s" {
		t.Errorf("stored is %v, %v; want the administrator's 5/s", stored.GetRate(), err)
	}
	meanwhile = func() {}
	if err := write(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("what is taken back: %v", err)
	}
}
