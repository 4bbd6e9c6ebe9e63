package cli

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/storetest"
)

var anyRevision = regexp.MustCompile(`\b1[0-9]{12}\b`)

// As an operator would: apply, look who did what, go back, and find everything as it was.
func TestHistoryAndRollback(t *testing.T) {
	server := serveAPI(t)
	must(t, server, "", "apply", "-f", "testdata/demo.yaml", "-m", "the first plan")
	exported := must(t, server, "", "export")
	first := anyRevision.FindString(must(t, server, "", "history"))
	const edit = head + "kind: Pool\nname: pools/api\nspec: {capacity: 150}\n---\n" +
		head + "kind: Tenant\nname: tenants/new\n"
	must(t, server, edit, "apply", "-f", "-", "-m", "half of it is enough")
	must(t, server, "", "delete", "tenants/acme/quotas/api")
	all := must(t, server, "", "history")
	for _, want := range []string{"+1 ~1 -0", "+0 ~0 -1", "half of it is enough", "delete", "the first plan"} {
		if !strings.Contains(all, want) {
			t.Errorf("history without %q:\n%s", want, all)
		}
	}
	if n := strings.Count(must(t, server, "", "history", "-n", "2"), "\n"); n != 3 {
		t.Errorf("history -n 2 has %d lines", n)
	}
	second := anyRevision.FindAllString(all, -1)[1]
	shown := must(t, server, "", "history", "show", second)
	for _, want := range []string{"message: half of it is enough", "~ pools/api\n    capacity: 300 -> 150\n",
		"+ tenants/new\n    weight: 1\n"} {
		if !strings.Contains(shown, want) {
			t.Errorf("show without %q:\n%s", want, shown)
		}
	}
	plan := must(t, server, "", "rollback", first)
	for _, want := range []string{"capacity: 150 -> 300", "- tenants/new",
		"+ tenants/acme/quotas/api\n    guaranteed: 20",
		"Nothing was changed yet. To do it: titrate rollback " + first + " --yes"} {
		if !strings.Contains(plan, want) {
			t.Errorf("plan without %q:\n%s", want, plan)
		}
	}
	if must(t, server, "", "export") == exported {
		t.Error("the plan changed something")
	}
	if got := must(t, server, "", "export", "--revision", first); got != exported {
		t.Errorf("export of revision %s:\n%s", first, got)
	}
	if got := must(t, server, "", "rollback", first, "--yes"); !strings.Contains(got, "Rolled back to "+first) {
		t.Errorf("rollback: %s", got)
	}
	if got := must(t, server, "", "export"); got != exported {
		t.Errorf("after the rollback:\n%s", got)
	}
	if got := must(t, server, "", "rollback", first); !strings.Contains(got, "Nothing to change") {
		t.Errorf("again: %s", got)
	}
	if got := must(t, server, exported, "apply", "-f", "-"); strings.Count(got, " unchanged") != 7 {
		t.Errorf("what export wrote, applied: %s", got)
	}
	once := []string{"rollback", second, "--yes", "--waive", "cut-half", "--request-id", "undo-7"}
	if got := must(t, server, "", once...); !strings.Contains(got, "Rolled back to "+second) {
		t.Errorf("with a request ID: %s", got)
	}
	made := anyRevision.FindString(must(t, server, "", "history"))
	if got := must(t, server, "", "history", "show", made); !strings.Contains(got, "request: undo-7\n") {
		t.Errorf("show without the request ID: %s", got)
	}
	must(t, server, "", "rollback", first, "--yes")
	if got := must(t, server, "", once...); strings.Contains(got, "Rolled back") ||
		!strings.Contains(got, "the request undo-7 has rolled back to "+second+" before, in revision "+made) {
		t.Errorf("the request repeated after another change: %s", got)
	}
	fails(t, server, command.ExitFailed, "", []string{"not found in the history"}, "rollback", "17")
	fails(t, server, command.ExitUsage, "", []string{"not a revision"}, "rollback", "last")
	fails(t, server, command.ExitUsage, "", []string{"want one REVISION"}, "history", "show")
}

// A directory in git says all that a set has: what it no longer mentions goes, and nothing
// else does.
func TestApplyPrunes(t *testing.T) {
	server := serveAPI(t)
	const team = head + "kind: Tenant\nname: tenants/a\n---\n" + head + "kind: Tenant\nname: tenants/b\n"
	must(t, server, "", "apply", "-f", "testdata/demo.yaml")
	must(t, server, team, "apply", "-f", "-", "--set", "team")
	const less = head + "kind: Tenant\nname: tenants/b\n"
	if got := must(t, server, less, "apply", "-f", "-", "--set", "team", "--prune", "--dry-run"); got !=
		"tenants/b unchanged (dry run)\ntenants/a deleted (dry run)\n" {
		t.Errorf("dry run: %s", got)
	}
	if got := must(t, server, less, "apply", "-f", "-", "--set", "team", "--prune"); got !=
		"tenants/b unchanged\ntenants/a deleted\n" {
		t.Errorf("prune: %s", got)
	}
	if got := must(t, server, "", "export", "--set", "team"); strings.Count(got, "kind:") != 1 {
		t.Errorf("the set has:\n%s", got)
	}
	if got := must(t, server, "", "export"); strings.Count(got, "kind:") != 8 {
		t.Errorf("in all:\n%s", got)
	}
	fails(t, server, command.ExitFailed, less, []string{"nothing was applied", "belongs to another set: team"}, "apply",
		"-f",
		"-", "--set", "other")
	must(t, server, less, "apply", "-f", "-", "--set", "other", "--overwrite")
	fails(t, server, command.ExitUsage, less, []string{"--prune needs --set"}, "apply", "-f", "-", "--prune")
}

// An apply that expects a revision is refused after any other change.
func TestApplyIfRevision(t *testing.T) {
	s := storetest.Open(t)
	server := serve(t, s)
	pool := &quotav1.Pool{Name: "pools/a", Capacity: 1}
	done, err := s.Apply(t.Context(), store.Note{}, []store.Change{{Resource: pool}})
	if err != nil {
		t.Fatal(err)
	}
	at := strconv.FormatInt(done.Revision, 10)
	const one = head + "kind: Tenant\nname: tenants/b\n"
	must(t, server, one, "apply", "-f", "-", "--if-revision", at)
	fails(t, server, command.ExitFailed, strings.Replace(one, "/b", "/c", 1), []string{"the configuration has changed"},
		"apply", "-f", "-", "--if-revision", at)
}
