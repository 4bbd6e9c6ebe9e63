package cli

import (
	"strings"
	"testing"

	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/store/storetest"
)

const overridden = head + `kind: Tenant
name: tenants/a
spec: {}
---
` + head + `kind: Limit
name: tenants/a/limits/each
spec: {rate: 10/s, overrides: [{client: listed, rate: 5/s}]}
---
` + head + `kind: Override
name: tenants/a/limits/each/overrides/k
spec: {rate: 20/s}
---
` + head + `kind: Override
name: tenants/a/limits/each/overrides/x%2Fy
spec: {rate: 30/s, until: "2199-01-01T00:00:00Z"}
`

// An override is in apply, get, history, export, plan, rollback, prune, why and delete as the other kinds are.
func TestOverrides(t *testing.T) {
	server := serve(t, storetest.Open(t))
	must(t, server, overridden, "apply", "-f", "-", "--set", "prod")
	has(t, must(t, server, "", "get", "overrides"), "overrides/k", "20/s", "x%2Fy", "2199-01-01T00:00:00Z")
	has(t, must(t, server, "", "get", "tenants/a/limits/each"), "tenants/a/limits/each ", "overrides/k")
	has(t, must(t, server, "", "get", "tenants/a/limits/each/overrides"), "overrides/k")
	has(t, must(t, server, "", "get", "tenants/a/overrides"), "overrides/k")
	has(t, must(t, server, "", "get", "tenants/a/limits/each/overrides/k", "-o", "yaml"), "rate: 20/s", "burst: 20")
	if out := must(t, server, "", "get"); strings.Contains(out, "overrides/k") {
		t.Errorf("get without arguments lists overrides:\n%s", out)
	}
	if out := must(t, server, "", "get", "limits"); strings.Contains(out, "overrides/k") {
		t.Errorf("get limits lists overrides:\n%s", out)
	}
	exported := must(t, server, "", "export")
	has(t, exported, "kind: Override", "name: tenants/a/limits/each/overrides/x%2Fy")
	has(t, must(t, server, exported, "apply", "-f", "-"), "overrides/k unchanged")
	has(t, must(t, server, "", "why", "a", "--client", "x/y"),
		`Client "x/y" has rate 30/s, burst 30 in tenants/a/limits/each/overrides/x%2Fy until 2199-01-01T00:00:00Z.`)
	changed := strings.Replace(overridden, "20/s", "21/s", 1)
	_, out, _ := titrate(t, server, changed, "plan", "-f", "-")
	has(t, out, "tenants/a/limits/each/overrides/k", "21/s")
	must(t, server, "", "delete", "tenants/a/limits/each/overrides/k")
	revision := strings.Fields(strings.Split(must(t, server, "", "history"), "\n")[2])[0]
	must(t, server, "", "rollback", revision, "--yes")
	has(t, must(t, server, "", "get", "overrides"), "overrides/k")
	fails(t, server, command.ExitFailed, "", []string{"still in use: tenants/a/limits/each/overrides/k"}, "delete",
		"tenants/a/limits/each")
	fails(t, server, command.ExitFailed, "", []string{"did you mean tenants/a/limits/each/overrides/k?"}, "delete",
		"tenants/a/limits/each/overrides/kk")
	pruned := strings.Split(overridden, "---\n"+head+"kind: Override\nname: tenants/a/limits/each/overrides/x")[0]
	has(t, must(t, server, pruned, "apply", "-f", "-", "--set", "prod", "--prune"), "overrides/x%2Fy deleted")
	must(t, server, "", "delete", "tenants/a/limits/each", "--force")
	if out := must(t, server, "", "export"); strings.Contains(out, "Override") {
		t.Error(out)
	}
}

// What cannot stand beside its limit is refused, whichever of the two comes second, and so are bad names.
func TestOverridesThatDoNotFit(t *testing.T) {
	server := serve(t, storetest.Open(t))
	must(t, server, overridden, "apply", "-f", "-")
	one := func(name, spec string) string {
		return head + "kind: Override\nname: " + name + "\nspec: " + spec + "\n"
	}
	limit := func(spec string) string {
		return head + "kind: Limit\nname: tenants/a/limits/each\nspec: " + spec + "\n"
	}
	const of = "tenants/a/limits/each/overrides/"
	for text, want := range map[string]string{
		one(of+"listed", "{rate: 1/s}"):                                 `client "listed" has an override in the list of tenants/a/limits/each and one in`,
		one(of+"new", "{concurrency: 3}"):                               "tenants/a/limits/each has a rate, and tenants/a/limits/each/overrides/new has a concurrency",
		one(of+"new", "{}"):                                             "spec.rate: missing",
		one(of+"new", "{rate: 1/s, concurrency: 2}"):                    "one of rate, concurrency and amount",
		one("tenants/a/limits/none/overrides/k", "{rate: 0}"):           "tenants/a/limits/none; create it first",
		one("tenants/-/limits/each/overrides/k", "{rate: 0}"):           "an override is of a tenant's own limit",
		one("plans/p/limits/each/overrides/k", "{rate: 0}"):             "is not a name",
		one(of+"%41", "{rate: 0}"):                                      `want client "A" written as A`,
		one(of+"a+b", "{rate: 0}"):                                      `want client "a+b" written as a%2Bb`,
		one(of+strings.Repeat("x", 257), "{rate: 0}"):                   "the client's name has 257 bytes, want 1 to 256",
		one(of+"k", "{rate: 0}") + "---\n" + one(of+"k", "{rate: 1/s}"): of + "k",
		limit("{rate: 10/s, overrides: [{client: k, rate: 5/s}]}"):      `client "k" has an override in the list`,
		limit("{concurrency: 3}"):                                       "with overrides such as tenants/a/limits/each/overrides/k a limit stays one with a rate",
		limit("{rate: 10/s, key: TENANT}"):                              "and its key too",
	} {
		status, out, errs := titrate(t, server, text, "apply", "-f", "-")
		if status == command.ExitOK || !strings.Contains(out+errs, want) {
			t.Errorf("%s\n%d %s%s\nwant %s", text, status, out, errs, want)
		}
	}
	moved := limit("{rate: 10/s}") + "---\n" + one(of+"listed", "{rate: 1/s}")
	has(t, must(t, server, moved, "apply", "-f", "-"), "overrides/listed created")
}
