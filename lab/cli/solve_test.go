package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/services/command"
)

// helpProblem is the problem that the help text shows.
func helpProblem(t *testing.T) string {
	t.Helper()
	_, rest, _ := strings.Cut(solveLong, "\n\n  - ")
	problem, _, found := strings.Cut(rest, "\n\n")
	if !found {
		t.Fatal("the help text shows no problem")
	}
	return "  - " + problem
}

func runSolve(t *testing.T, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = Run(t.Context(), append([]string{"solve"}, args...), strings.NewReader(stdin), &out, &errs)
	return status, out.String(), errs.String()
}

// The help's problem has the help's answer, in all formats.
func TestSolveFromStdin(t *testing.T) {
	type answer struct {
		Status  string
		Pools   []map[string]any
		Tenants []struct {
			Name    string
			Share   float64
			BoundBy string `yaml:"boundBy"`
		}
	}
	check := func(a answer) {
		t.Helper()
		if a.Status != "OK" || len(a.Pools) != 2 || len(a.Tenants) != 3 {
			t.Fatalf("%+v", a)
		}
		for i, want := range []struct {
			share float64
			by    string
		}{{100, "db"}, {60, "DEMAND"}, {140, "api"}} {
			if got := a.Tenants[i]; got.Share != want.share || got.BoundBy != want.by {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
	}
	var a, b answer
	for _, as := range []string{"json", "yaml", "table"} {
		status, out, errs := runSolve(t, helpProblem(t), "-f", "-", "-o", as)
		if status != command.ExitOK || errs != "" {
			t.Fatalf("-o %s: status %d: %s", as, status, errs)
		}
		switch as {
		case "json":
			if err := json.Unmarshal([]byte(out), &a); err != nil {
				t.Fatal(err)
			}
			check(a)
		case "yaml":
			if err := yaml.Unmarshal([]byte(out), &b); err != nil {
				t.Fatal(err)
			}
			check(b)
		default:
			if !strings.Contains(out, "######") || strings.Contains(out, "\x1b") {
				t.Errorf("no plain bar in\n%s", out)
			}
		}
	}
}

func TestSolveRunsEveryExample(t *testing.T) {
	files, _ := filepath.Glob("../../lab/examples/solve-*.yaml")
	if len(files) == 0 {
		t.Fatal("no examples")
	}
	for _, file := range files {
		if status, _, errs := runSolve(t, "", "-f", file); status != command.ExitOK || errs != "" {
			t.Errorf("%s: status %d: %s", file, status, errs)
		}
	}
}

func TestSolveRefusesWithPlaceAndStatus2(t *testing.T) {
	file := filepath.Join(t.TempDir(), "problem.yaml")
	if err := os.WriteFile(file, []byte("- {apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/api, spec: "+
		"{capacity: 0}}\n- {apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/a, spec: {weight: -1}}\n"+
		"- {apiVersion: titrate.dev/v1alpha1, kind: Demand, spec: {flows: [{uses: {db: 1}}]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := runSolve(t, "", "-f", file)
	if status != command.ExitUsage || out != "" {
		t.Errorf("status %d, output %q", status, out)
	}
	for _, want := range []string{file + ":1: spec.capacity: ", file + ":2: spec.weight: ",
		file + ":3: spec.flows[0].uses.db: "} {
		if !strings.Contains(errs, want) {
			t.Errorf("no %q in\n%s", want, errs)
		}
	}
	for _, c := range []struct{ stdin, args, want string }{
		{"", "-f -", "<stdin>: 0 documents of kind Pool"},
		{"", "-f nowhere.yaml", "nowhere.yaml"},
		{"", "", `"file" not set`},
		{"", "-f - extra", "extra"},
		{"", "-f - -o xml", "table, json or yaml"},
	} {
		if status, _, errs := runSolve(t, c.stdin, strings.Fields(c.args)...); status != command.ExitUsage ||
			!strings.Contains(errs, c.want) {
			t.Errorf("%s: status %d: %s", c.args, status, errs)
		}
	}
}
