package cli

import (
	"fmt"
	"strings"
	"testing"
)

// With ten thousand tenants each table is whole, or as short as it says.
func TestTenThousandTenants(t *testing.T) {
	server := serveAPI(t)
	var documents strings.Builder
	documents.WriteString("apiVersion: titrate.dev/v1alpha1\nkind: Pool\nname: pools/api\nspec: {capacity: 300}\n")
	const tenants = 10_000
	for i := range tenants {
		fmt.Fprintf(&documents, "---\napiVersion: titrate.dev/v1alpha1\nkind: Tenant\nname: tenants/t%05d\n"+
			"spec: {weight: %d}\n", i, 1+i%3)
	}
	heavier := strings.NewReplacer("weight: 1}", "weight: 4}", "weight: 2}", "weight: 5}", "weight: 3}",
		"weight: 6}").Replace(documents.String())
	lines := func(text string) int { return strings.Count(text, "\n") }
	if status, out, errs := titrate(t, server, documents.String(), "apply", "-m", "all of them", "-f",
		"-"); status != 0 || lines(out) != 1+tenants {
		t.Fatalf("apply: status %d, %d lines: %s", status, lines(out), errs)
	}
	for _, c := range []struct {
		args        []string
		least, most int
		has         string
	}{
		{[]string{"get", "tenants"}, 1 + tenants, 1 + tenants, "t09999"},
		{[]string{"get"}, 1 + tenants, tenants + 20, "t09999"},
		{[]string{"export"}, tenants, 10 * tenants, "tenants/t09999"},
		{[]string{"history"}, 2, 2, "all of them"},
		{[]string{"top", "--once"}, 1, 60, ""},
		{[]string{"check"}, 1, 20, ""},
		{[]string{"plan", "-f", "-"}, 1000, 4100, fmt.Sprintf("and %d more resources; -o json has all", tenants-1000)},
		{[]string{"apply", "--plan", "-f", "-"}, tenants, 1 + tenants + 4100,
			fmt.Sprintf("and %d more resources; titrate plan -o json has all", tenants-1000)},
		{[]string{"rollback", "FIRST"}, 1000, 4100,
			fmt.Sprintf("and %d more resources; --all shows all", tenants-1000)},
		{[]string{"rollback", "FIRST", "--all"}, tenants, 4 * tenants, "~ tenants/t09999\n"},
	} {
		if c.args[0] == "rollback" {
			revisions := anyRevision.FindAllString(must(t, server, "", "history"), -1)
			c.args[1] = revisions[len(revisions)-1]
		}
		status, out, errs := titrate(t, server, heavier, c.args...)
		if status != 0 {
			t.Errorf("%v: status %d: %s", c.args, status, errs)
		}
		if n := lines(out); n < c.least || n > c.most || !strings.Contains(out, c.has) {
			t.Errorf("%v: %d lines, want %d to %d with %q", c.args, n, c.least, c.most, c.has)
		}
	}
}
