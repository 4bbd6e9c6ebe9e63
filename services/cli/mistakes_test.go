package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/titrate/titrate/services/command"
)

// mistakes are typical of newcomers. document is the content of bad.yaml.
var mistakes = []struct{ title, document, command string }{
	{"A rate without its unit", head + "kind: Limit\nname: tenants/acme/limits/l\nspec:\n  rate: 100\n", ""},
	{"A unit that does not exist", head + "kind: Limit\nname: tenants/acme/limits/l\nspec:\n  rate: 100/sek\n", ""},
	{"A field with a slip", head + "kind: Pool\nname: pools/api\nspec:\n  capactiy: 300\n", ""},
	{"A field that must be there", head + "kind: Pool\nname: pools/api\nspec:\n  sharing: MAX_MIN\n", ""},
	{"A tab", head + "kind: Pool\nname: pools/api\nspec:\n\tcapacity: 300\n", ""},
	{"A kind in lower case", head + "kind: pool\nname: pools/api\nspec:\n  capacity: 300\n", ""},
	{"A name without its collection", head + "kind: Tenant\nname: acme\n", ""},
	{"A name of another kind", head + "kind: Quota\nname: tenants/acme/limits/api\nspec:\n  max: 20\n", ""},
	{"metadata, as in Kubernetes", head + "kind: Pool\nmetadata:\n  name: api\nspec:\n  capacity: 300\n", ""},
	{"No apiVersion", "kind: Pool\nname: pools/api\nspec:\n  capacity: 300\n", ""},
	{"A number with a unit where there is none", head + "kind: Pool\nname: pools/api\nspec:\n  capacity: 300/s\n", ""},
	{"A time without its unit",
		head + "kind: Pool\nname: pools/api\nspec:\n  capacity: 300\n  queue:\n    maxWait: 50\n",
		""},
	{"A mode in lower case", head + "kind: Quota\nname: tenants/acme/quotas/api\nspec:\n  max: 20\n  mode: shadow\n",
		""},
	{"A field given twice", head + "kind: Pool\nname: pools/api\nspec:\n  capacity: 300\n  capacity: 400\n", ""},
	{"A number with a 0 in front", head + "kind: Pool\nname: pools/api\nspec:\n  capacity: 0300\n", ""},
	{"An object of Kubernetes", "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: api\n", ""},
	{"Several at once", head + "kind: Limit\nname: per-client\nspec:\n  rate: 5/fortnight\n  burst: 0.5\n  mode: ON\n" +
		"  colour: red\n---\n" + head + "kind: Quota\nname: tenants/acme/quotas/api\nspec:\n  guaranteed: 30\n  max: 20\n",
		""},
	{"A tenant that does not exist", head + "kind: Quota\nname: tenants/amce/quotas/api\nspec:\n  max: 20\n", ""},
	{"Pools that do not exist",
		head + "kind: Limit\nname: tenants/acme/limits/l\nspec:\n  rate: 100/s\n  pools: [api, " +
			"aip]\n", ""},
	{"The same resource twice", head + "kind: Tenant\nname: tenants/bolt\n---\n" + head +
		"kind: Tenant\nname: tenants/bolt\nspec:\n  weight: 3\n", ""},
	{"A question about a tenant that does not exist", "", "titrate why amce"},
	{"A filter by a tenant that does not exist", "", "titrate top --once --tenant amce"},
	{"A kind with a slip", "", "titrate get polls"},
	{"A command with a slip", "", "titrate aplly -f config.yaml"},
}

const (
	tutorial      = "../../docs/tutorial.md"
	mistakesBegin = "<!-- written by go test ./cli -run TestMistakes -update: begin -->\n"
	mistakesEnd   = "<!-- written by go test ./cli -run TestMistakes -update: end -->\n"
)

// The tutorial has what is said about these mistakes.
func TestMistakes(t *testing.T) {
	path, err := filepath.Abs(tutorial)
	if err != nil {
		t.Fatal(err)
	}
	server := serveAPI(t)
	must(t, server, "", "apply", "-f", "testdata/demo.yaml")
	t.Chdir(t.TempDir())
	var page strings.Builder
	for i, m := range mistakes {
		fmt.Fprintf(&page, "%d. %s\n\n```console\n", i+1, m.title)
		typed := m.command
		if m.document != "" {
			typed = "titrate apply -f bad.yaml"
			if err := os.WriteFile("bad.yaml", []byte(m.document), 0o600); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&page, "$ cat bad.yaml\n%s", m.document)
		}
		status, out, errs := titrate(t, server, "", strings.Fields(typed)[1:]...)
		if status == command.ExitOK || out != "" {
			t.Errorf("%s: status %d: %s", m.title, status, out)
		}
		fmt.Fprintf(&page, "$ %s\n%s```\n\n", typed, errs)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), mistakesBegin)
	was, after, found := strings.Cut(rest, mistakesEnd)
	switch got := "\n" + page.String(); {
	case !found:
		t.Fatalf("%s has no place for the mistakes", tutorial)
	case *update:
		err = os.WriteFile(path, []byte(before+mistakesBegin+got+mistakesEnd+after), 0o600)
	case got != was:
		t.Errorf("%s says otherwise\n--- got\n%s--- want\n%s", tutorial, got, was)
	}
	if err != nil {
		t.Error(err)
	}
}
