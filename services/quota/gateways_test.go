package quota_test

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// A gateway with an older revision is behind by the changes after it, since the first of them was stored.
func TestListGateways(t *testing.T) {
	live := &present{inForce: 1, atGateways: 2}
	c := serve(t, live)
	var revisions []int64
	for _, name := range []string{"tenants/a", "tenants/b", "tenants/c"} {
		revisions = append(revisions, apply(t, c, &quotav1.Tenant{Name: name}).GetRevision())
	}
	live.revision = revisions[2]
	live.gateways = []*quotav1.Gateway{{Name: "latest", Revision: revisions[2]}, {Name: "older", Revision: revisions[1]},
		{Name: "old", Revision: revisions[0]}, {Name: "none"}, {Name: "ahead", Revision: revisions[2] + 5}}
	got, err := c.ListGateways(t.Context(), &quotav1.ListGatewaysRequest{})
	if err != nil || got.GetRevision() != revisions[2] || len(got.GetGateways()) != 5 {
		t.Fatalf("%v, %v", got, err)
	}
	history, err := c.ListRevisions(t.Context(), &quotav1.ListRevisionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	stored := history.GetRevisions() // the newest first
	for i, want := range []int32{0, 1, 2, 3, 0} {
		g := got.GetGateways()[i]
		if g.GetBehind() != want || g.GetBehindMore() {
			t.Errorf("%v, want %d behind", g, want)
		}
		if want == 0 && g.GetBehindSince() != nil ||
			want > 0 && !g.GetBehindSince().AsTime().Equal(stored[want-1].GetTime().AsTime()) {
			t.Errorf("%v, want since %v", g, stored)
		}
	}
	live.revision, live.gateways = revisions[0]-1, []*quotav1.Gateway{{Name: "gw", Revision: revisions[0] - 2}}
	if got, err = c.ListGateways(t.Context(), &quotav1.ListGatewaysRequest{}); err != nil ||
		!got.GetGateways()[0].GetBehindMore() || got.GetGateways()[0].GetBehindSince() != nil {
		t.Errorf("before the history: %v, %v", got, err)
	}
	one, err := c.GetTenant(t.Context(), &quotav1.GetTenantRequest{Name: "tenants/a"})
	if err != nil || one.GetStatus().GetInForce() != 1 || one.GetStatus().GetGateways() != 2 {
		t.Errorf("%v, %v", one, err)
	}
	live.err = errors.New("settling")
	if _, err := c.ListGateways(t.Context(), &quotav1.ListGatewaysRequest{}); grpcstatus.Code(err) != codes.Unavailable {
		t.Errorf("%v", err)
	}
}
