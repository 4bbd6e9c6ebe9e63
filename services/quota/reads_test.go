package quota_test

import (
	"context"
	"strings"
	"testing"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/store/resource"
)

// Answers about all tenants have what a caller may read, and nothing else. Another tenant's request may have the same
// ID, and notes name what others have configured.
func TestAnswersLeaveOutOtherTenants(t *testing.T) {
	live := &present{unknown: []resource.Message{&quotav1.Limit{Name: "tenants/bolt/limits/secret"}},
		decisions: &quotav1.FindDecisionsResponse{Agents: 1,
			Decisions: []*quotav1.Decision{{Tenant: "bolt", Client: "secret"}, {Tenant: "acme", Client: "own"}}},
		activity: []*quotav1.Activity{{Tenant: "acme", Refused: 1}}}
	c := serve(t, live, func(s *quota.Server) {
		s.Reads(func(context.Context) ([]string, bool) { return []string{"acme", "gone"}, true })
	})
	apply(t, c, &quotav1.Tenant{Name: "tenants/acme"}, &quotav1.Tenant{Name: "tenants/bolt"})
	ctx := t.Context()
	tenants, err := c.ListTenants(ctx, &quotav1.ListTenantsRequest{PageSize: 1})
	if err != nil || len(tenants.Tenants) != 1 || tenants.Tenants[0].Name != "tenants/acme" || tenants.NextPageToken != "" {
		t.Errorf("%v, %v: want acme alone", tenants, err)
	}
	found, err := c.FindDecisions(ctx, &quotav1.FindDecisionsRequest{Request: "id"})
	if err != nil || len(found.Decisions) != 1 || found.Decisions[0].Client != "own" {
		t.Errorf("%v, %v: want the request of acme", found, err)
	}
	top, err := c.Top(ctx, &quotav1.TopRequest{Selection: &quotav1.Selection{Tenant: "acme"}})
	if err != nil || len(top.Rows) != 1 || len(top.Notes) > 0 {
		t.Errorf("%v, %v: want a row without notes", top, err)
	}
	apply(t, c, &quotav1.Limit{Name: "tenants/-/limits/blocked", Rate: "9/s",
		Overrides: []*quotav1.InlineOverride{{Client: "mallory", Rate: "0"}}})
	why, err := c.Why(ctx, &quotav1.WhyRequest{Tenant: "tenants/acme", Client: "mallory"})
	notes := strings.Join(why.GetNotes(), "\n")
	if err != nil || !strings.Contains(notes, `Client "mallory" is blocked`) ||
		strings.Contains(notes, "last changed") || strings.Contains(notes, "secret") {
		t.Errorf("%s, %v: want the block without its history, and nothing of bolt", notes, err)
	}
}
