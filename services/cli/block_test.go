package cli

import (
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/store/storetest"
)

// has wants words in a text.
func has(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in\n%s", w, text)
		}
	}
}

// A block stands in the history and in an export. The command why explains it; unblock and rollback undo it.
func TestBlock(t *testing.T) {
	server := serve(t, storetest.Open(t))
	must(t, server, "", "apply", "-f", "testdata/demo.yaml")
	out := must(t, server, "", "block", "acme", "--client", "mallory", "--for", "1h", "--dry-run")
	has(t, out, "tenants/acme/limits/blocked/overrides/mallory created: (dry run) client \"mallory\" is refused by every gateway until 20")
	fails(t, server, command.ExitFailed, "", []string{"tenants/acme/limits/blocked"}, "get", "tenants/acme/limits/blocked")

	out = must(t, server, "", "block", "acme", "--client", "mallory", "--for", "1h", "--reason", "scans us")
	has(t, out, "tenants/acme/limits/blocked created", "until 20")
	out = must(t, server, "", "block", "acme", "--client", "eve")
	if has(t, out, "blocked/overrides/eve created", "until titrate unblock"); strings.Contains(out, "limits/blocked created") {
		t.Error(out)
	}
	before := regexp.MustCompile(`\d{10,}`).FindString(must(t, server, "", "history"))
	has(t, must(t, server, "", "history"), `block client "mallory": scans us`, `block client "eve"`)
	exported := must(t, server, "", "export")
	has(t, exported, "name: tenants/acme/limits/blocked/overrides/mallory", "until: \"20", "rate: \"0\"")
	has(t, must(t, server, exported, "apply", "-f", "-"), "tenants/acme/limits/blocked unchanged", "blocked/overrides/mallory unchanged")
	why := must(t, server, "", "why", "acme", "--client", "eve")
	has(t, why, `Client "eve" is blocked until titrate unblock: its rate in tenants/acme/limits/blocked/overrides/eve is 0.`,
		"That was last changed in revision "+before, `: block client "eve"`)

	// A shorter one replaces it; another client stays as it is.
	out = must(t, server, "", "block", "acme", "--client", "mallory", "--until", "2199-01-01T01:00:00+01:00", "-o", "json")
	has(t, out, `"until": "2199-01-01T00:00:00Z"`, `overrides/mallory`)
	has(t, must(t, server, "", "unblock", "acme", "--client", "eve"), "blocked/overrides/eve deleted: client \"eve\" is not blocked")
	has(t, must(t, server, "", "unblock", "acme", "--client", "mallory", "--reason", "paid"), "blocked deleted: client")
	has(t, must(t, server, "", "history"), `unblock client "mallory": paid`)
	fails(t, server, command.ExitFailed, "", []string{"nothing was changed: no limit of tenants/acme blocks client \"eve\""},
		"unblock", "acme", "--client", "eve")
	must(t, server, "", "rollback", before, "--yes")
	has(t, must(t, server, "", "why", "acme", "--client", "eve"), `Client "eve" is blocked`)
}

// In a limit of one's own the other numbers of a client are not lost, and what it cannot express is refused.
func TestBlockInALimit(t *testing.T) {
	server := serveAPI(t)
	const tenant = head + "kind: Tenant\nname: tenants/a\nspec: {}\n---\n"
	must(t, server, tenant+head+"kind: Limit\nname: tenants/a/limits/l\nspec: {rate: 5/s, overrides: "+
		"[{client: big, rate: 50/s}]}\n---\n"+head+"kind: Limit\nname: tenants/a/limits/all\nspec: {rate: 5/s, key: TENANT}\n---\n"+
		head+"kind: Limit\nname: tenants/a/limits/flight\nspec: {concurrency: 5}\n", "apply", "-f", "-")
	for limit, words := range map[string]string{"l": "numbers of its own in tenants/a/limits/l (rate 50/s)",
		"limits/all": "tenants/a/limits/all has a concurrency, a quota or key TENANT", "tenants/a/limits/flight": "has a concurrency", "none": "tenants/a/limits/none"} {
		fails(t, server, command.ExitFailed, "", []string{words}, "block", "a", "--client", "big", "--limit", limit)
	}
	has(t, must(t, server, "", "block", "a", "--client", "m", "--limit", "l", "--for", "30m"), "limits/l/overrides/m created")
	has(t, must(t, server, "", "block", "a", "--client", "m"), "limits/blocked created")
	out := must(t, server, "", "unblock", "a", "--client", "m")
	has(t, out, "limits/l/overrides/m deleted", "limits/blocked deleted")
	has(t, must(t, server, "", "get", "tenants/a/limits/l", "-o", "yaml"), "client: big")
}

// A new limit of blocks would hide the blocks of the tenant's plan or of every tenant.
func TestABlockHidesNoOther(t *testing.T) {
	server := serveAPI(t)
	blocks := func(parent string) string {
		return head + "kind: Limit\nname: " + parent + "/limits/blocked\n" +
			"spec: {rate: 1000000000/s, overrides: [{client: eve, rate: \"0\"}]}\n---\n"
	}
	must(t, server, head+"kind: Plan\nname: plans/gold\nspec: {}\n---\n"+blocks("plans/gold")+
		head+"kind: Tenant\nname: tenants/a\nspec: {plan: gold}\n---\n"+
		head+"kind: Tenant\nname: tenants/b\nspec: {}\n", "apply", "-f", "-")
	fails(t, server, command.ExitFailed, "", []string{"would hide plans/gold/limits/blocked"},
		"block", "a", "--client", "m")
	has(t, must(t, server, "", "block", "b", "--client", "m"), "tenants/b/limits/blocked created")
	must(t, server, "", "unblock", "b", "--client", "m")
	must(t, server, blocks("tenants/-"), "apply", "-f", "-")
	fails(t, server, command.ExitFailed, "", []string{"would hide tenants/-/limits/blocked"},
		"block", "b", "--client", "m")
}

func TestBlockUsage(t *testing.T) {
	for words, args := range map[string][]string{
		"want one TENANT":                         {"--client", "m"},
		`required flag(s) "client"`:               {"a"},
		"--for 10ms: want 1s at least":            {"a", "--client", "m", "--for", "10ms"},
		"--for -1h0m0s: want 1s at least":         {"a", "--client", "m", "--for", "-1h"},
		`--until "tomorrow": want a time with`:    {"a", "--client", "m", "--until", "tomorrow"},
		"--until 2020-01-01T00:00:00Z has passed": {"a", "--client", "m", "--until", "2020-01-01T00:00:00Z"},
		"give --for or --until, one of the two":   {"a", "--client", "m", "--until", "2199-01-01T00:00:00Z", "--for", "1h"},
		"--limit: ":                               {"a", "--client", "m", "--limit", "A b"},
	} {
		fails(t, "127.0.0.1:1", command.ExitUsage, "", []string{words}, append([]string{"block"}, args...)...)
	}
	fails(t, serveAPI(t), command.ExitFailed, "", []string{"tenants/nobody"}, "block", "nobody", "--client", "m")
}

// Several who block at once lose nothing, the first of them neither.
func TestBlocksAtOnce(t *testing.T) {
	server := serveAPI(t)
	must(t, server, head+"kind: Tenant\nname: tenants/a\nspec: {}\n", "apply", "-f", "-")
	t.Setenv(serverEnv, server)
	var all sync.WaitGroup
	for _, client := range []string{"alice", "bob", "eve"} {
		all.Go(func() {
			var out strings.Builder
			if status := Run(t.Context(), []string{"block", "a", "--client", client}, strings.NewReader(""), &out, &out); status != 0 {
				t.Errorf("%s: %s", client, out.String())
			}
		})
	}
	all.Wait()
	has(t, must(t, server, "", "get", "overrides"), "overrides/alice", "overrides/bob", "overrides/eve")
}

// What has lapsed is accepted with a warning, shown as lapsed, and cleaned up by the next block.
func TestLapsedIsShown(t *testing.T) {
	server := serve(t, storetest.Open(t))
	past := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	text := head + "kind: Tenant\nname: tenants/a\nspec: {}\n---\n" + head + "kind: Pool\nname: pools/api\nspec: {capacity: 5}\n---\n" +
		head + "kind: Limit\nname: tenants/a/limits/l\nspec:\n  rate: 5/s\n  until: " + past + "\n---\n" +
		head + "kind: Limit\nname: tenants/a/limits/blocked\nspec:\n  rate: 1000000000/s\n  overrides:\n    - {client: m, rate: 0, until: " +
		past + "}\n---\n" + head + "kind: Quota\nname: tenants/a/quotas/api\nspec: {max: 3, until: 2199-01-01T00:00:00Z}\n"
	status, out, errs := titrate(t, server, text, "apply", "-f", "-")
	if status != command.ExitOK || !strings.Contains(out, "limits/l created") {
		t.Fatalf("%d %s%s", status, out, errs)
	}
	has(t, errs, "spec.until: it has lapsed ("+past+"), and all is as without it",
		"spec.overrides[0].until: 1 override has lapsed, such as that of client \"m\" ("+past+")")
	out = must(t, server, "", "get")
	has(t, out, "ENFORCE (lapsed)", "ENFORCE until 2199-01-01T00:00:00Z", "tenants/a/limits/l: it has lapsed")
	has(t, must(t, server, "", "why", "a", "limits/l"), "it has lapsed ("+past+") and lets everything pass")
	has(t, must(t, server, "", "why", "a", "--client", "m"), `The block of "m" in tenants/a/limits/blocked lapsed at `)
	must(t, server, "", "block", "a", "--client", "n")
	if out := must(t, server, "", "get", "tenants/a/limits/blocked", "-o", "yaml"); strings.Contains(out, "client: m\n") {
		t.Errorf("a lapsed block stays:\n%s", out)
	}
	plan := strings.Replace(text, "max: 3, until: 2199-01-01", "max: 3, until: 2198-01-01", 1)
	_, out, _ = titrate(t, server, plan, "plan", "-f", "-")
	has(t, out, "until: 2199-01-01T00:00:00Z -> 2198-01-01T00:00:00Z")
}
