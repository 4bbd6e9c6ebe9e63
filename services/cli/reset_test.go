package cli

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/titrate/titrate/services/command"
)

// A reset stands in the tenant, in the history and in an export; rollback undoes it. It is refused where it means
// nothing, and before anything is changed.
func TestReset(t *testing.T) {
	server := serveAPI(t)
	must(t, server, head+"kind: Plan\nname: plans/gold\nspec: {}\n---\n"+
		head+"kind: Tenant\nname: tenants/a\nspec: {plan: gold}\n---\n"+
		head+"kind: Limit\nname: plans/gold/limits/l\nspec: {rate: 5/s}\n---\n"+
		head+"kind: Limit\nname: tenants/-/limits/all\nspec: {rate: 5/s, key: TENANT}\n---\n"+
		head+"kind: Limit\nname: tenants/a/limits/m\nspec: {quota: {amount: 100}}\n---\n"+
		head+"kind: Limit\nname: tenants/a/limits/flight\nspec: {concurrency: 5}\n", "apply", "-f", "-")
	for _, c := range []struct {
		words string
		args  []string
	}{
		{"counts each client apart: say which one with --client", []string{"a", "limits/l"}},
		{"has key TENANT, so all clients have one count", []string{"a", "all", "--client", "x"}},
		{"has a concurrency: there is nothing to reset", []string{"a", "limits/flight", "--client", "x"}},
		{"tenants/a has no limit \"none\"", []string{"a", "none", "--client", "x"}},
		{"tenants/b", []string{"b", "limits/l", "--client", "x"}},
	} {
		fails(t, server, command.ExitFailed, "", []string{c.words}, append([]string{"reset"}, c.args...)...)
	}
	before := regexp.MustCompile(`\d{10,}`).FindString(must(t, server, "", "history"))
	has(t, must(t, server, "", "reset", "a", "limits/l", "--client", "x", "--dry-run"), "(dry run)",
		"client \"x\" of plans/gold/limits/l begins anew at every gateway")
	must(t, server, "", "reset", "a", "tenants/a/limits/m", "--client", "x", "--reason", "our fault")
	has(t, must(t, server, "", "reset", "a", "all"), "all clients together of tenants/-/limits/all begins anew")
	has(t, must(t, server, "", "history"), `reset client "x" of limits/m: our fault`)
	exported := must(t, server, "", "export")
	has(t, exported, "resets:", "limit: m", "client: x", "limit: all")
	has(t, must(t, server, exported, "apply", "-f", "-"), "tenants/a unchanged")
	has(t, must(t, server, head+"kind: Tenant\nname: tenants/a\nspec: {plan: gold}\n", "apply", "-f", "-"),
		"tenants/a unchanged")
	has(t, must(t, server, head+"kind: Tenant\nname: tenants/a\nspec: {plan: gold, displayName: A}\n", "apply", "-f", "-"),
		"tenants/a updated")
	has(t, must(t, server, "", "get", "tenants/a", "-o", "yaml"), "displayName: A", "limit: m", "limit: all")
	must(t, server, "", "reset", "a", "m", "--client", "x")
	again := must(t, server, "", "get", "tenants/a", "-o", "yaml")
	if strings.Count(again, "limit: m") != 1 || again == exported {
		t.Error(again)
	}
	must(t, server, "", "rollback", before, "--yes")
	if out := must(t, server, "", "get", "tenants/a", "-o", "yaml"); strings.Contains(out, "resets") {
		t.Error(out)
	}
}

// A tenant keeps its last hundred resets: the oldest makes room, which is said.
func TestResetsAreBounded(t *testing.T) {
	server := serveAPI(t)
	doc := &strings.Builder{}
	doc.WriteString(head + "kind: Limit\nname: tenants/a/limits/l\nspec: {rate: 5/s}\n---\n" +
		head + "kind: Tenant\nname: tenants/a\nspec:\n  resets:\n")
	for i := range 100 {
		fmt.Fprintf(doc, "    - {limit: l, client: c%d, time: \"2026-11-%02dT00:00:00Z\"}\n", i, 28-i%28)
	}
	must(t, server, doc.String(), "apply", "-f", "-")
	has(t, must(t, server, "", "reset", "a", "l", "--client", "x"), "so does client \"c27\" of limits/l, whose reset of "+
		"2026-11-01T00:00:00Z made room")
	fails(t, server, command.ExitFailed, strings.Replace(doc.String(), "resets:\n", "resets:\n    - {limit: l, client: c1, "+
		"time: \"2026-11-28T00:00:00Z\"}\n", 1), []string{"resets"}, "apply", "-f", "-")
}
