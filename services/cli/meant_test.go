package cli

import (
	"strings"
	"testing"

	"github.com/titrate/titrate/services/command"
)

// A name that nothing has is said to be unknown, with the name that may be meant, wherever a command takes one.
func TestUnknownNamesHaveANearOne(t *testing.T) {
	server := serveAPI(t)
	must(t, server, "", "apply", "-f", "testdata/demo.yaml")
	const counted = `; its requests count as those of tenant "-" (tenants/-), except at gateways whose unknown_tenant is ` +
		"REJECT or BYPASS"
	for line, want := range map[string]string{
		"top --once --tenant acmee":          "tenants/acmee: not found" + counted + "; did you mean tenants/acme?",
		"top --once --tenant tenants/nobody": "tenants/nobody: not found" + counted,
		"top --once --pool apj":              "pools/apj: not found; did you mean pools/api?",
		"top --once --limit per-clien":       "limits/per-clien: not found; did you mean per-client?",
		"top --once --tenant acme --limit al": "tenants/acme/limits/al: not found" +
			"; did you mean tenants/acme/limits/all?",
		"top --once --tenant acme --limit per-clen": "tenants/acme/limits/per-clen: not found" +
			"; did you mean tenants/-/limits/per-client?",
		"top --once --gateway gw-12": "gateways/gw-12: not found; did you mean gateways/gw-1?",
		"get gateways/gw-12": "gateways/gw-12: not known; titrate get gateways lists the known ones" +
			"; did you mean gw-1?",
		"get tenants/acmee":              "tenants/acmee: not found; did you mean tenants/acme?",
		"get tenants/acmee/quotas":       "tenants/acmee: not found; did you mean tenants/acme?",
		"get pools tenants/acmee/limits": "tenants/acmee: not found; did you mean tenants/acme?",
		"get tenants/acme/limits/al": "tenants/acme/limits/al: not found" +
			"; did you mean tenants/acme/limits/all?",
		"why acmee":            "tenants/acmee: not found" + counted + "; did you mean tenants/acme?",
		"why acmee limits/all": "tenants/acmee: not found" + counted + "; did you mean tenants/acme?",
		"why acme apj":         "pools/apj: not found; did you mean pools/api?",
		"why acme per-clen": "tenants/acme/limits/per-clen: not found" +
			"; did you mean tenants/-/limits/per-client?",
		"why acme nothing": "pools/nothing: not found",
		"delete pools/apj": "pools/apj: not found; did you mean pools/api?",
	} {
		status, out, errs := titrate(t, server, "", strings.Fields(line)...)
		if first, _, _ := strings.Cut(errs, "\n"); status != command.ExitFailed || out != "" ||
			!strings.HasSuffix(first, ": "+want) {
			t.Errorf("titrate %s: %d %s\n got %s\nwant %s", line, status, out, first, want)
		}
	}
	for _, line := range []string{"top --once --tenant globex --limit per-client", "top --once --tenant - --pool batch",
		"top --once --limit all", "top --once --client nobody", "top --once --gateway gw-2",
		"get tenants/globex/quotas",
		"get tenants/-/quotas"} {
		if status, _, errs := titrate(t, server, "", strings.Fields(line)...); status != command.ExitOK {
			t.Errorf("titrate %s: %s", line, errs)
		}
	}
	fails(t, server, command.ExitUsage, "", []string{"did you mean tenant?"}, "top", "--by", "tennant")
	fails(t, server, command.ExitUsage, "", []string{"did you mean refused?"}, "top", "--sort", "refuse")
}

// What a document names and does not exist is said at the field that names it, each separately.
func TestUnknownReferencesHaveTheirField(t *testing.T) {
	server := serveAPI(t)
	must(t, server, "", "apply", "-f", "testdata/demo.yaml")
	const text = head + "kind: Limit\nname: tenants/acmee/limits/l\nspec:\n  rate: 1/s\n  pools:\n  - api\n  - apj\n" +
		"  - nothing\n---\n" + head + "kind: Quota\nname: tenants/acme/quotas/batsh\nspec: {max: 1}\n"
	const want = `titrate apply: nothing was applied:
<stdin>:3: name: missing tenants/acmee; did you mean tenants/acme?
<stdin>:8: spec.pools[1]: missing pools/apj; did you mean pools/api?
<stdin>:9: spec.pools[2]: missing pools/nothing
<stdin>:13: name: missing pools/batsh; did you mean pools/batch?
`
	status, out, errs := titrate(t, server, text, "apply", "-f", "-")
	short := strings.NewReplacer("names something that does not exist:", "missing",
		"; create it first or in the same change", "").Replace(errs)
	if status != command.ExitFailed || out != "" || short != want {
		t.Errorf("%d %s%s", status, out, errs)
	}
}
