package quota_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// The change that blocks a client: in which limit, and in which form.
func TestPlanBlock(t *testing.T) {
	c, ctx := serve(t, nil), t.Context()
	apply(t, c, &quotav1.Tenant{Name: "tenants/acme"}, &quotav1.Tenant{Name: "tenants/dart"},
		&quotav1.Limit{Name: "tenants/acme/limits/l", Rate: "5/s",
			Overrides: []*quotav1.InlineOverride{{Client: "listed", Rate: "9/s"}}},
		&quotav1.Limit{Name: "tenants/acme/limits/flying", Concurrency: 3},
		&quotav1.Limit{Name: "tenants/acme/limits/all", Rate: "5/s", Key: quotav1.Key_TENANT},
		&quotav1.Limit{Name: "tenants/-/limits/l", Rate: "5/s"},
		&quotav1.Override{Name: "tenants/acme/limits/l/overrides/own", Rate: "7/s"})
	end := timestamppb.New(time.Now().Add(time.Hour).Truncate(time.Second))
	for _, p := range []struct {
		name, tenant, client, limit string
		want                        []string // resources of the change, each as its name and what it has
		code                        codes.Code
	}{
		{"the first one makes the limit of blocks", "tenants/acme", "a/b", "", []string{"tenants/acme/limits/blocked",
			"tenants/acme/limits/blocked/overrides/a%2Fb"}, codes.OK},
		{"a named limit", "tenants/acme", "eve", "tenants/acme/limits/l", []string{"tenants/acme/limits/l/overrides/eve"},
			codes.OK},
		{"every tenant's", "tenants/-", "eve", "tenants/-/limits/l", []string{"tenants/-/limits/l"}, codes.OK},
		{"numbers in the list", "tenants/acme", "listed", "tenants/acme/limits/l", nil, codes.FailedPrecondition},
		{"numbers of its own", "tenants/acme", "own", "tenants/acme/limits/l", nil, codes.FailedPrecondition},
		{"a concurrency", "tenants/acme", "eve", "tenants/acme/limits/flying", nil, codes.FailedPrecondition},
		{"one count for all", "tenants/acme", "eve", "tenants/acme/limits/all", nil, codes.FailedPrecondition},
		{"another tenant's limit", "tenants/dart", "eve", "tenants/acme/limits/l", nil, codes.InvalidArgument},
		{"no such limit", "tenants/acme", "eve", "tenants/acme/limits/none", nil, codes.NotFound},
		{"no such tenant", "tenants/none", "eve", "", nil, codes.FailedPrecondition},
	} {
		r, err := c.PlanBlock(ctx, &quotav1.PlanBlockRequest{Tenant: p.tenant, Client: p.client, Limit: p.limit, Until: end})
		if status.Code(err) != p.code {
			t.Errorf("%s: %v, want %v", p.name, err, p.code)
			continue
		}
		var names []string
		for _, one := range r.GetApply().GetResources() {
			names = append(names, resource.Name(one))
			if o, is := resource.Unwrap(one).(*quotav1.Override); is && (o.Rate != "0" || !o.Until.AsTime().Equal(end.AsTime())) {
				t.Errorf("%s: %v", p.name, o)
			}
		}
		if strings.Join(names, " ") != strings.Join(p.want, " ") {
			t.Errorf("%s: the change has %v, want %v", p.name, names, p.want)
		}
	}
}

// A plan of a block is of what was stored: it is refused after a change, and takes lapsed blocks along.
func TestPlanBlockIsOfOneState(t *testing.T) {
	c, ctx := serve(t, nil), t.Context()
	apply(t, c, &quotav1.Tenant{Name: "tenants/acme"})
	plan := func(client string) *quotav1.ApplyRequest {
		r, err := c.PlanBlock(ctx, &quotav1.PlanBlockRequest{Tenant: "tenants/acme", Client: client})
		if err != nil {
			t.Fatal(err)
		}
		return r.GetApply()
	}
	one, other := plan("eve"), plan("mallory")
	if _, err := c.Apply(ctx, one); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Apply(ctx, other); status.Code(err) != codes.Aborted {
		t.Errorf("the second limit of blocks replaced the first one: %v", err)
	}
	apply(t, c, &quotav1.Override{Name: "tenants/acme/limits/blocked/overrides/eve", Rate: "0",
		Until: timestamppb.New(time.Now().Add(-time.Minute))})
	again := plan("mallory")
	if gone := again.GetDeletions(); len(gone) != 1 || !strings.HasSuffix(gone[0].GetName(), "/eve") || len(again.Resources) != 1 {
		t.Errorf("%v: want the block of mallory alone, and that of eve, which has lapsed, gone", again)
	}
	again = plan("eve") // replaces its own
	if o, is := resource.Unwrap(again.Resources[0]).(*quotav1.Override); !is || o.Etag == "" || len(again.Deletions) != 0 {
		t.Errorf("%v", again)
	}
}
