package quota_test

import (
	"bytes"
	"context"
	"fmt"
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

// A change of more than a thousand resources has one line, with their number and the digest of what was asked for. If a
// few resources of as large a request change, each has its own line.
func TestAuditOfManyResources(t *testing.T) {
	var lines bytes.Buffer
	s := quota.New(storetest.Open(t), nil).Audit(slog.New(slog.NewJSONHandler(&lines, nil)),
		func(context.Context) string { return "spiffe://x/alice" }).AuditFirst()
	r := &quotav1.ApplyRequest{Message: "all of them"}
	for i := range 1001 {
		r.Resources = append(r.Resources, envelope(&quotav1.Tenant{Name: fmt.Sprintf("tenants/t%d", i), Weight: 2}))
	}
	apply := func(words ...string) {
		t.Helper()
		lines.Reset()
		if _, err := s.Apply(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		got := strings.Split(strings.TrimSpace(lines.String()), "\n")
		if len(got) != len(words) || lines.Len() > 2000 {
			t.Fatalf("%d lines, %d bytes, want %d: %.2000s", len(got), lines.Len(), len(words), lines.String())
		}
		for i, word := range words {
			if !strings.Contains(got[i], word) || !strings.Contains(got[i], "spiffe://x/alice") {
				t.Errorf("%q is not in %s", word, got[i])
			}
		}
	}
	apply(`"resources":1001,"digest":"`, `"outcome":"many","created":1001,"updated":0,"deleted":0,"digest":"`)
	r.Resources[7].GetTenant().Weight, r.Resources[8].GetTenant().Weight = 3, 4
	apply(`"requested"`, "tenants/t7", "tenants/t8")
}
