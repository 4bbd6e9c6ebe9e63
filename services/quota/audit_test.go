package quota_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/store/storetest"
)

// Each change leaves a line with who, what, before and after; what changes nothing
// leaves none.
func TestAudit(t *testing.T) {
	var lines bytes.Buffer
	s := quota.New(storetest.Open(t), nil).Audit(slog.New(slog.NewJSONHandler(&lines, nil)),
		func(context.Context) string { return "spiffe://x/alice" })
	apply := func(weight float64, only bool) {
		r := &quotav1.ApplyRequest{Resources: []*quotav1.Resource{envelope(&quotav1.Tenant{Name: "tenants/acme",
			Weight: weight})}, ValidateOnly: only}
		if _, err := s.Apply(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	apply(2, true)
	apply(2, false)
	apply(2, false)
	apply(3, false)
	if _, err := s.DeleteTenant(t.Context(), &quotav1.DeleteTenantRequest{Name: "tenants/acme"}); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(lines.String()), "\n")
	if len(got) != 3 {
		t.Fatalf("lines:\n%s", lines.String())
	}
	for i, words := range [][]string{{"created", `"after"`, "2}"}, {"updated", `"before"`, "2}", `"after"`, "3}"},
		{"deleted", `"before"`, "3}"}} {
		for _, w := range append(words, `"msg":"audit"`, "spiffe://x/alice", "tenants/acme") {
			if !strings.Contains(got[i], w) {
				t.Errorf("%q is not in %s", w, got[i])
			}
		}
	}
}
