package cli

import (
	"regexp"
	"testing"

	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/store/storetest"
)

const gold = `
apiVersion: titrate.dev/v1alpha1
kind: Plan
name: plans/gold
spec: {weight: 2}
---
apiVersion: titrate.dev/v1alpha1
kind: Limit
name: plans/gold/limits/each
spec: {rate: 10/s}
---
apiVersion: titrate.dev/v1alpha1
kind: Tenant
name: tenants/acme
spec: {plan: gold}
`

// A plan is in apply, get, history, export, rollback, prune and delete as the other kinds are.
func TestPlans(t *testing.T) {
	server := serve(t, storetest.Open(t))
	must(t, server, gold, "apply", "-f", "-", "--set", "prod")
	has(t, must(t, server, "", "get"), "plans/gold", "plans/gold/limits/each", "PLAN", "gold")
	has(t, must(t, server, "", "get", "plans/gold"), "plans/gold/limits/each")
	has(t, must(t, server, "", "get", "plans/gold/limits"), "plans/gold/limits/each")
	has(t, must(t, server, "", "get", "tenants/acme", "-o", "yaml"), "plan: gold")
	exported := must(t, server, "", "export")
	has(t, exported, "kind: Plan", "name: plans/gold/limits/each", "plan: gold")
	has(t, must(t, server, exported, "apply", "-f", "-"), "plans/gold unchanged", "plans/gold/limits/each unchanged")
	fails(t, server, command.ExitFailed, "", []string{"still in use: on this plan are tenants/acme"},
		"delete", "plans/gold", "--force")
	fails(t, server, command.ExitFailed, "", []string{"did you mean plans/gold?"}, "get", "plans/golt")

	// A plan (the verb) shows it, and a rollback brings it back.
	tin := "apiVersion: titrate.dev/v1alpha1\nkind: Plan\nname: plans/gold\nspec: {weight: 9}\n"
	has(t, must(t, server, tin, "plan", "-f", "-"), "~ plans/gold", "weight")
	before := regexp.MustCompile(`\d{10,}`).FindString(must(t, server, "", "history"))
	must(t, server, tin, "apply", "-f", "-")
	must(t, server, "", "rollback", before, "--yes")
	has(t, must(t, server, "", "get", "plans/gold", "-o", "yaml"), "weight: 2")

	rest := "apiVersion: titrate.dev/v1alpha1\nkind: Tenant\nname: tenants/acme\nspec: {}\n"
	has(t, must(t, server, rest, "apply", "-f", "-", "--set", "prod", "--prune"), "plans/gold deleted",
		"plans/gold/limits/each deleted")
	has(t, must(t, server, "", "history"), "prod")
}
