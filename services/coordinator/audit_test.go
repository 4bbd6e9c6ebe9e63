package coordinator_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator"
	"github.com/titrate/titrate/services/store/storetest"
)

// While audit lines cannot be written changes go on, and /readyz, the metrics and the log say so; with
// --audit-required a change is refused, and nothing of it is stored.
func TestAuditLinesThatCannotBeWritten(t *testing.T) {
	for _, required := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "audit")
		r := startWith(t, storetest.Shared(t).Endpoint, storetest.Prefix(t), "one", insecure.NewCredentials(),
			func(c *coordinator.Config) { c.AuditLog, c.AuditRequired = path, required })
		ready(t, r, http.StatusOK, "")
		change := func(name string) codes.Code {
			_, err := r.quota().Apply(t.Context(), &quotav1.ApplyRequest{Resources: []*quotav1.Resource{pool(name, 1)}})
			return status.Code(err)
		}
		r.apply(pool("one", 1))
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/dev/full", path); err != nil {
			t.Fatal(err)
		}
		want := map[bool]codes.Code{false: codes.OK, true: codes.Unavailable}[required]
		if got := change("two"); got != want {
			t.Errorf("required %v: a change while the disk is full: %v, want %v", required, got, want)
		}
		list, err := r.quota().ListPools(t.Context(), &quotav1.ListPoolsRequest{})
		if err != nil || (len(list.GetPools()) == 2) == required {
			t.Errorf("required %v: stored are %v, %v", required, list.GetPools(), err)
		}
		code, ready := r.get("/readyz")
		_, metrics := r.get("/metrics")
		if code != http.StatusOK || !strings.Contains(ready, "audit lines are lost (1 so far)") ||
			!strings.Contains(metrics, "titrate_audit_lines_lost_total") ||
			strings.Contains(metrics, "titrate_audit_lines_lost_total 0") {
			t.Errorf("required %v: /readyz %d %s", required, code, ready)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if got := change("three"); got != codes.OK {
			t.Errorf("required %v: a change when there is room again: %v", required, got)
		}
		text, err := os.ReadFile(path)
		if err != nil || strings.Contains(string(text), `"outcome":"requested","resources":["pools/three"]`) != required ||
			!strings.Contains(string(text), `"outcome":"created","resource":"pools/three"`) {
			t.Errorf("required %v: %v, %s", required, err, text)
		}
	}
}
