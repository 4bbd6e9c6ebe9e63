package quota_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/quota/quotatest"
	"github.com/titrate/titrate/services/store/storetest"
)

// Every way to change something leaves a revision with its author; a rollback undoes it.
func TestRevisions(t *testing.T) {
	s := quota.New(storetest.Open(t), nil).Audit(slog.New(slog.DiscardHandler),
		func(context.Context) string { return "spiffe://x/alice" })
	ctx := t.Context()
	first, err := s.Apply(ctx, &quotav1.ApplyRequest{Resources: []*quotav1.Resource{envelope(api), envelope(acme)},
		Message: "begin", Set: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	bolt := &quotav1.CreateTenantRequest{TenantId: "bolt", Tenant: &quotav1.Tenant{}}
	if _, err := s.CreateTenant(ctx, bolt); err != nil {
		t.Fatal(err)
	}
	if _, err := s.UpdatePool(ctx, &quotav1.UpdatePoolRequest{Pool: &quotav1.Pool{Name: "pools/api",
		Capacity: 7}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.DeleteTenant(ctx, &quotav1.DeleteTenantRequest{Name: "tenants/acme"}); err != nil {
		t.Fatal(err)
	}
	var actions []string
	token := ""
	for range 3 {
		page, err := s.ListRevisions(ctx, &quotav1.ListRevisionsRequest{PageSize: 2, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.GetRevisions() {
			actions = append(actions, r.GetAction())
			if r.GetAuthor() != "spiffe://x/alice" {
				t.Errorf("author of %v", r)
			}
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	if got := strings.Join(actions, " "); got != "delete update create apply" {
		t.Errorf("actions %s", got)
	}
	got, err := s.GetRevision(ctx, &quotav1.GetRevisionRequest{Revision: first.GetRevision(), MaxChanges: 1})
	if err != nil || got.GetRevision().GetMessage() != "begin" || got.GetRevision().GetSet() != "prod" ||
		len(got.GetChanges()) != 1 || got.GetMore() != 1 {
		t.Errorf("%v (%v)", got, err)
	}
	page, err := s.GetRevision(ctx, &quotav1.GetRevisionRequest{Revision: first.GetRevision(), Skip: 1})
	if err != nil || len(page.GetChanges()) != 1 || page.GetMore() != 0 ||
		page.GetChanges()[0].GetName() == got.GetChanges()[0].GetName() {
		t.Errorf("the page behind the first change: %v (%v)", page, err)
	}

	back := &quotav1.RollbackRequest{Revision: first.GetRevision(), ValidateOnly: true, Message: "no"}
	plan, err := s.Rollback(ctx, back)
	if err != nil || len(plan.GetChanges()) != 3 {
		t.Fatalf("plan %v (%v)", plan, err)
	}
	back.ValidateOnly, back.ExpectedRevision = false, first.GetRevision()
	_, err = s.Rollback(ctx, back)
	wantCode(t, err, codes.Aborted, "the rollback expects")
	back.ExpectedRevision = plan.GetRevision()
	done, err := s.Rollback(ctx, back)
	if err != nil || len(done.GetChanges()) != 3 {
		t.Fatalf("rollback %v (%v)", done, err)
	}
	pool, err := s.GetPool(ctx, &quotav1.GetPoolRequest{Name: "pools/api"})
	if err != nil || pool.GetCapacity() != 100 || pool.GetSet() != "prod" {
		t.Errorf("%v (%v)", pool, err)
	}
	tenants, err := s.ListTenants(ctx, &quotav1.ListTenantsRequest{})
	if err != nil || len(tenants.GetTenants()) != 1 || tenants.GetTenants()[0].GetName() != "tenants/acme" {
		t.Errorf("%v (%v)", tenants, err)
	}
	last, err := s.GetRevision(ctx, &quotav1.GetRevisionRequest{Revision: done.GetRevision()})
	if want := fmt.Sprintf("rollback to %d", first.GetRevision()); err != nil ||
		last.GetRevision().GetAction() != want || last.GetRevision().GetMessage() != "no" {
		t.Errorf("%v (%v)", last, err)
	}
	_, err = s.GetRevision(ctx, &quotav1.GetRevisionRequest{Revision: 1})
	wantCode(t, err, codes.NotFound, "titrate history")
	_, err = s.Rollback(ctx, &quotav1.RollbackRequest{Revision: 1})
	wantCode(t, err, codes.NotFound, "titrate history")
}

// An apply deletes in the same step, only what has the etag, and only on the revision that it
// expects; what another set owns is refused.
func TestApplyDeletesAndExpects(t *testing.T) {
	c := serve(t, nil)
	first := apply(t, c, api, acme, &quotav1.Tenant{Name: "tenants/bolt"})
	etag := first.GetResources()[2].GetTenant().GetEtag()
	ask := &quotav1.ApplyRequest{Resources: []*quotav1.Resource{envelope(api)}, Set: "prod",
		Deletions:        []*quotav1.Deletion{{Name: "tenants/bolt", Etag: "1"}, {Name: "tenants/none"}},
		ExpectedRevision: first.GetRevision()}
	_, err := c.Apply(t.Context(), ask)
	wantCode(t, err, codes.Aborted, "tenants/bolt")
	ask.Deletions[0].Etag = etag
	done, err := c.Apply(t.Context(), ask)
	if err != nil || len(done.GetDeleted()) != 1 || done.GetDeleted()[0] != "tenants/bolt" ||
		done.GetOutcomes()[0] != quotav1.ApplyResponse_UPDATED {
		t.Fatalf("%v (%v)", done, err)
	}
	again := proto.Clone(ask).(*quotav1.ApplyRequest)
	_, err = c.Apply(t.Context(), again)
	wantCode(t, err, codes.Aborted, "the configuration has changed")
	again.ExpectedRevision, again.Set = 0, "other"
	_, err = c.Apply(t.Context(), again)
	wantCode(t, err, codes.FailedPrecondition, "belongs to another set: prod")
	again.TakeOver = true
	if _, err = c.Apply(t.Context(), again); err != nil {
		t.Error(err)
	}
}

// A caller may say that its changes are minor, as the operator does.
func TestACallerMayCallItsChangesMinor(t *testing.T) {
	to := storetest.Open(t)
	api := quotatest.Client(t, quota.New(to, nil))
	minor := metadata.AppendToOutgoingContext(t.Context(), quota.MinorKey, "true")
	for i, ctx := range []context.Context{t.Context(), minor} {
		_, err := api.CreateTenant(ctx, &quotav1.CreateTenantRequest{TenantId: fmt.Sprint("t", i),
			Tenant: &quotav1.Tenant{}})
		if err != nil {
			t.Fatal(err)
		}
	}
	entries, err := to.History(t.Context(), 0, 2)
	if err != nil || !entries[0].Minor || entries[1].Minor {
		t.Errorf("%+v (%v): the second change is minor, and the first is not", entries, err)
	}
}
