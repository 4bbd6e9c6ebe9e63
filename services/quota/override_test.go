package quota_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// An override has the standard methods.
func TestOverrideResources(t *testing.T) {
	c, ctx := serve(t, nil), t.Context()
	apply(t, c, &quotav1.Tenant{Name: "tenants/acme"}, &quotav1.Limit{Name: "tenants/acme/limits/l", Rate: "1/s"})
	const parent = "tenants/acme/limits/l"
	o, err := c.CreateOverride(ctx, &quotav1.CreateOverrideRequest{Parent: parent, OverrideId: "k",
		Override: &quotav1.Override{Rate: "5/s"}})
	if err != nil || o.Name != parent+"/overrides/k" || o.Burst != 5 || o.Etag == "" {
		t.Fatalf("%v (%v)", o, err)
	}
	o, err = c.UpdateOverride(ctx, &quotav1.UpdateOverrideRequest{Override: &quotav1.Override{Name: o.Name, Burst: 9, Etag: o.Etag},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"burst"}}})
	if err != nil || o.Burst != 9 || o.Rate != "5/s" {
		t.Fatalf("%v (%v)", o, err)
	}
	if got, err := c.GetOverride(ctx, &quotav1.GetOverrideRequest{Name: o.Name}); err != nil || got.Etag != o.Etag {
		t.Errorf("%v (%v)", got, err)
	}
	for _, of := range []string{parent, "tenants/acme", "tenants/*"} {
		if r, err := c.ListOverrides(ctx, &quotav1.ListOverridesRequest{Parent: of}); err != nil || len(r.Overrides) != 1 {
			t.Errorf("%s: %v (%v)", of, r, err)
		}
	}
	for _, of := range []string{"plans/gold", "tenants/none", "tenants/acme/limits/none", "tenants/acme/quotas/api", ""} {
		if _, err := c.ListOverrides(ctx, &quotav1.ListOverridesRequest{Parent: of}); err == nil {
			t.Errorf("overrides of %q are listed", of)
		}
	}
	if _, err := c.DeleteLimit(ctx, &quotav1.DeleteLimitRequest{Name: parent}); status.Code(err) != codes.FailedPrecondition {
		t.Error(err)
	}
	if _, err := c.DeleteOverride(ctx, &quotav1.DeleteOverrideRequest{Name: o.Name, Etag: o.Etag}); err != nil {
		t.Error(err)
	}
	if _, err := c.DeleteLimit(ctx, &quotav1.DeleteLimitRequest{Name: parent, Force: true}); err != nil {
		t.Error(err)
	}
}

// A limit has a bound of overrides; at the bound one can be replaced.
func TestTooManyOverrides(t *testing.T) {
	live := &present{}
	c, ctx := serve(t, live), t.Context()
	apply(t, c, &quotav1.Tenant{Name: "tenants/acme"}, &quotav1.Limit{Name: "tenants/acme/limits/l", Rate: "1/s"},
		&quotav1.Override{Name: "tenants/acme/limits/l/overrides/k", Rate: "2/s"})
	live.overrides = 1_000_000
	put := func(client string) error {
		_, err := c.UpdateOverride(ctx, &quotav1.UpdateOverrideRequest{AllowMissing: true,
			Override: &quotav1.Override{Name: "tenants/acme/limits/l/overrides/" + client, Rate: "3/s"}})
		return err
	}
	if err := put("k"); err != nil {
		t.Error(err)
	}
	if err := put("new"); status.Code(err) != codes.FailedPrecondition ||
		!strings.Contains(err.Error(), "too many overrides: tenants/acme/limits/l has 1000000, and with these it would be 1000001") {
		t.Error(err)
	}
}
