package cli

import (
	"fmt"
	"strings"
	"testing"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
)

// Of many tenants a plan shows the greatest losses, and of many guards the first, and says how many more there are.
func TestAPlanOfManyIsShort(t *testing.T) {
	plan := &quotav1.PlanResponse{}
	for i := range 10_000 {
		name := fmt.Sprintf("tenants/t%05d", i)
		plan.Changes = append(plan.Changes, &quotav1.ResourceChange{Name: name})
		plan.Flows = append(plan.Flows, &quotav1.FlowEffect{Tenant: name, OverAfter: float64(i)})
		plan.Guards = append(plan.Guards, &quotav1.Guard{Name: "delete-in-use", Resource: name, Message: "is in use"})
	}
	plan.Guards = append(plan.Guards, &quotav1.Guard{Name: "effects-unknown", Message: "nobody leads"})
	var out strings.Builder
	part := extent{rest: "-o json has all"}
	if err := writePlan(&out, plan, part); err != nil {
		t.Fatal(err)
	}
	errs := (&planned{}).stands(plan, part).Error()
	for text, wants := range map[string][]string{
		out.String(): {"+ tenants/t00999\nand 9000 more resources; -o json has all", "\ntenants/t09999 ",
			"\ntenants/t09950 ", "\nand 9950 more rows, which lose less; -o json has all"},
		errs: {"delete-in-use: tenants/t00009: is in use\n", "delete-in-use: and 9990 more; -o json has all",
			"effects-unknown: nobody leads", "--waive delete-in-use,effects-unknown"},
	} {
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%.2000s", want, text)
			}
		}
	}
	if n := strings.Count(out.String(), "\n"); n > mostChanges+mostEffects+10 {
		t.Errorf("%d lines", n)
	}
	out.Reset()
	part.all = true
	if err := writePlan(&out, plan, part); err != nil {
		t.Fatal(err)
	}
	if errs := (&planned{}).stands(plan, part).Error(); strings.Count(out.String(), "tenants/t09998") != 2 ||
		!strings.Contains(errs, "tenants/t09999: is in use") || strings.Contains(out.String()+errs, "more") {
		t.Errorf("not all is shown:\n%.2000s\n%.2000s", out.String(), errs)
	}
}

// As an operator would: plan a cut, see who loses, waive the guard, apply what was planned.
func TestPlanThenApply(t *testing.T) {
	server := serveAPI(t)
	must(t, server, "", "apply", "-f", "testdata/demo.yaml")
	const cut = head + "kind: Pool\nname: pools/api\nspec: {capacity: 100}\n"
	status, out, errs := titrate(t, server, cut, "plan", "-f", "-")
	golden(t, "plan", out)
	if status != command.ExitFailed || !strings.Contains(errs,
		"cut-half: pools/api: capacity falls from 300.0/s to 100.0/s") ||
		!strings.Contains(errs, "cut-half: tenants/acme: its share of pools/api falls from") ||
		!strings.Contains(errs, "If it is meant: --waive cut-half") {
		t.Errorf("status %d\n%s", status, errs)
	}
	if got := must(t, server, cut, "plan", "-f", "-", "--waive", "cut-half"); got != out {
		t.Errorf("waived:\n%s", got)
	}
	status, _, errs = titrate(t, server, cut, "apply", "-f", "-", "--plan")
	if status != command.ExitFailed || !strings.Contains(errs, "nothing was applied") {
		t.Errorf("status %d\n%s", status, errs)
	}
	before := anyRevision.FindString(must(t, server, "", "history"))
	if got := must(t, server, cut, "apply", "-f", "-", "--plan", "--waive",
		"cut-half"); got != out+"pools/api updated\n" {
		t.Errorf("apply --plan:\n%s", got)
	}
	if got := must(t, server, cut, "plan", "-f", "-"); got != "Nothing to change.\n" {
		t.Errorf("planned again: %s", got)
	}
	if got := must(t, server, "", "rollback", before); !strings.Contains(got, "THEN BOUND BY") {
		t.Errorf("the plan of a rollback:\n%s", got)
	}
	fails(t, server, command.ExitUsage, cut, []string{"is no guard", "delete-in-use"}, "plan", "-f", "-", "--waive",
		"all")
}
