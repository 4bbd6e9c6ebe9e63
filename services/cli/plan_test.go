package cli

import (
	"strings"
	"testing"
)

// As an operator would: plan a cut, see who loses, waive the guard, apply what was planned.
func TestPlanThenApply(t *testing.T) {
	server := serveAPI(t)
	must(t, server, "", "apply", "-f", "testdata/demo.yaml")
	const cut = head + "kind: Pool\nname: pools/api\nspec: {capacity: 100}\n"
	status, out, errs := titrate(t, server, cut, "plan", "-f", "-")
	golden(t, "plan", out)
	if status != exitFailed || !strings.Contains(errs, "cut-half: pools/api: capacity falls from 300.0/s to 100.0/s") ||
		!strings.Contains(errs, "cut-half: tenants/acme: its share of pools/api falls from") ||
		!strings.Contains(errs, "If it is meant: --waive cut-half") {
		t.Errorf("status %d\n%s", status, errs)
	}
	if got := must(t, server, cut, "plan", "-f", "-", "--waive", "cut-half"); got != out {
		t.Errorf("waived:\n%s", got)
	}
	status, _, errs = titrate(t, server, cut, "apply", "-f", "-", "--plan")
	if status != exitFailed || !strings.Contains(errs, "nothing was applied") {
		t.Errorf("status %d\n%s", status, errs)
	}
	before := anyRevision.FindString(must(t, server, "", "history"))
	if got := must(t, server, cut, "apply", "-f", "-", "--plan", "--waive", "cut-half"); got != out+"pools/api updated\n" {
		t.Errorf("apply --plan:\n%s", got)
	}
	if got := must(t, server, cut, "plan", "-f", "-"); got != "Nothing to change.\n" {
		t.Errorf("planned again: %s", got)
	}
	if got := must(t, server, "", "rollback", before); !strings.Contains(got, "THEN BOUND BY") {
		t.Errorf("the plan of a rollback:\n%s", got)
	}
	fails(t, server, exitUsage, cut, []string{"is no guard", "delete-in-use"}, "plan", "-f", "-", "--waive", "all")
}
