package quota_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/control/config"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// revisions lists the revisions of the history, the newest first.
func revisions(t *testing.T, c quotav1.QuotaServiceClient) []*quotav1.Revision {
	t.Helper()
	r, err := c.ListRevisions(t.Context(), &quotav1.ListRevisionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return r.GetRevisions()
}

// An apply that is repeated with its ID is answered as the first time, whatever was changed since,
// and changes nothing.
func TestApplyIsRepeatedByItsID(t *testing.T) {
	c := serve(t, nil)
	apply(t, c, &quotav1.Tenant{Name: "tenants/same"}, &quotav1.Tenant{Name: "tenants/acme", Weight: 2},
		&quotav1.Tenant{Name: "tenants/gone"})
	request := &quotav1.ApplyRequest{RequestId: "b7c1", Resources: []*quotav1.Resource{
		envelope(&quotav1.Tenant{Name: "tenants/same"}), envelope(&quotav1.Tenant{Name: "tenants/acme", Weight: 3}),
		envelope(&quotav1.Tenant{Name: "tenants/new"})},
		Deletions: []*quotav1.Deletion{{Name: "tenants/gone"}, {Name: "tenants/never"}}}
	first, err := c.Apply(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if got := revisions(t, c)[0]; got.GetRequestId() != "b7c1" {
		t.Errorf("%v", got)
	}
	apply(t, c, &quotav1.Tenant{Name: "tenants/same", Weight: 9}, &quotav1.Tenant{Name: "tenants/acme", Weight: 9})
	if _, err := c.DeleteTenant(t.Context(), &quotav1.DeleteTenantRequest{Name: "tenants/new"}); err != nil {
		t.Fatal(err)
	}
	before := revisions(t, c)
	for _, expected := range []int64{0, first.GetRevision()} {
		request.ExpectedRevision = expected
		again, err := c.Apply(t.Context(), request)
		if err != nil || !proto.Equal(again, first) {
			t.Errorf("repeated: %v, %v, want %v", again, err, first)
		}
	}
	if now := revisions(t, c); len(now) != len(before) {
		t.Errorf("the repetition made revision %v", now[0])
	}
	request.Message = "another"
	if _, err := c.Apply(t.Context(), request); grpcstatus.Code(err) != codes.FailedPrecondition ||
		!strings.Contains(err.Error(), "b7c1") {
		t.Errorf("another request with the same ID: %v", err)
	}
	request.RequestId = "not an id"
	if _, err := c.Apply(t.Context(), request); grpcstatus.Code(err) != codes.InvalidArgument {
		t.Errorf("%v", err)
	}
}

// A request is answered as the first time where checks would refuse it by now. Another coordinator leads, to which
// no gateway has reported its names, and others have made limits up to the number that a tenant may have.
func TestARepetitionIsNotCheckedAgain(t *testing.T) {
	live := &present{}
	c := serve(t, live)
	limit := func(name string) *quotav1.Resource {
		return envelope(&quotav1.Limit{Name: "tenants/acme/limits/" + name, Rate: "1/s"})
	}
	apply(t, c, &quotav1.Tenant{Name: "tenants/acme"})
	request := &quotav1.ApplyRequest{RequestId: "one", Strict: true, Resources: []*quotav1.Resource{limit("one")}}
	first, err := c.Apply(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	others := &quotav1.ApplyRequest{Deletions: []*quotav1.Deletion{{Name: "tenants/acme/limits/one"}}}
	for i := range config.MaxLimits {
		others.Resources = append(others.Resources, limit(fmt.Sprint("other-", i)))
	}
	if _, err := c.Apply(t.Context(), others); err != nil {
		t.Fatal(err)
	}
	for _, deaf := range []bool{false, true} {
		live.deaf = deaf
		again, err := c.Apply(t.Context(), request)
		if err != nil || !proto.Equal(again, first) {
			t.Errorf("repeated, no gateway is heard: %v: %v, %v, want %v", deaf, again, err, first)
		}
	}
	request.RequestId = "two"
	if _, err := c.Apply(t.Context(), request); grpcstatus.Code(err) != codes.FailedPrecondition {
		t.Errorf("not a repetition: %v", err)
	}
}

// Of a request that comes many times at once, one makes the change.
func TestRequestsAtOnceAreOne(t *testing.T) {
	c := serve(t, nil)
	var all sync.WaitGroup
	answers := make([]*quotav1.ApplyResponse, 8)
	for i := range answers {
		all.Go(func() {
			r, err := c.Apply(t.Context(), &quotav1.ApplyRequest{RequestId: "one",
				Resources: []*quotav1.Resource{envelope(&quotav1.Tenant{Name: "tenants/acme"})}})
			if err != nil {
				t.Error(err)
			}
			answers[i] = r
		})
	}
	all.Wait()
	for _, a := range answers {
		if !proto.Equal(a, answers[0]) || a.GetOutcomes()[0] != quotav1.ApplyResponse_CREATED {
			t.Errorf("%v beside %v", a, answers[0])
		}
	}
	if n := len(revisions(t, c)); n != 1 {
		t.Errorf("%d revisions", n)
	}
}

func TestDeleteIsRepeatedByItsID(t *testing.T) {
	c := serve(t, nil)
	acme := &quotav1.Tenant{Name: "tenants/acme"}
	apply(t, c, acme, &quotav1.Limit{Name: "tenants/acme/limits/l", Rate: "1/s"})
	ask := &quotav1.DeleteTenantRequest{Name: "tenants/acme", Force: true, RequestId: "d"}
	if _, err := c.DeleteTenant(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	apply(t, c, acme)
	if _, err := c.DeleteTenant(t.Context(), ask); err != nil {
		t.Errorf("repeated: %v", err)
	}
	if _, err := c.GetTenant(t.Context(), &quotav1.GetTenantRequest{Name: "tenants/acme"}); err != nil {
		t.Errorf("the repetition has deleted what was created since: %v", err)
	}
	ask.Force = false
	if _, err := c.DeleteTenant(t.Context(), ask); grpcstatus.Code(err) != codes.FailedPrecondition {
		t.Errorf("%v", err)
	}
}

func TestRollbackIsRepeatedByItsID(t *testing.T) {
	c := serve(t, nil)
	apply(t, c, &quotav1.Tenant{Name: "tenants/acme", Weight: 2})
	first := revisions(t, c)[0].GetRevision()
	apply(t, c, &quotav1.Tenant{Name: "tenants/acme", Weight: 3}, &quotav1.Tenant{Name: "tenants/bolt"})
	ask := &quotav1.RollbackRequest{Revision: first, RequestId: "back"}
	done, err := c.Rollback(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, c, &quotav1.Tenant{Name: "tenants/acme", Weight: 4})
	ask.ExpectedRevision = done.GetRevision()
	again, err := c.Rollback(t.Context(), ask)
	if err != nil || !proto.Equal(again, done) {
		t.Errorf("%v, %v, want %v", again, err, done)
	}
	if got, err := c.GetTenant(t.Context(), &quotav1.GetTenantRequest{Name: "tenants/acme"}); err != nil ||
		got.GetWeight() != 4 {
		t.Errorf("the repetition went back again: %v, %v", got, err)
	}
}
