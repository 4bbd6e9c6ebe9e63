package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/lab/simulate"
	"github.com/titrate/titrate/services/command"
)

// helpScenario is the scenario that the help text shows.
func helpScenario(t *testing.T) string {
	t.Helper()
	_, rest, _ := strings.Cut(simulateLong, "\n\n  - ")
	scenario, _, found := strings.Cut(rest, "\n\n")
	if !found {
		t.Fatal("the help text shows no scenario")
	}
	return "  - " + scenario
}

func runSimulate(t *testing.T, ctx context.Context, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = Run(ctx, append([]string{"simulate"}, args...), strings.NewReader(stdin), &out, &errs)
	return status, out.String(), errs.String()
}

// The help's scenario can be played, in all formats, and always gives the same.
func TestSimulateFromStdin(t *testing.T) {
	var results [2]simulate.Result
	for i := range results {
		status, out, errs := runSimulate(t, t.Context(), helpScenario(t), "-f", "-", "-o", "json")
		if status != command.ExitOK || errs != "" {
			t.Fatalf("status %d: %s", status, errs)
		}
		if err := json.Unmarshal([]byte(out), &results[i]); err != nil {
			t.Fatal(err)
		}
	}
	a, b := results[0].Systems[0], results[1].Systems[0]
	if a.Name != simulate.Titrate || a.Requests.Offered < 10000 || len(a.Pools) != 1 || len(a.Settling) != 2 {
		t.Errorf("%+v", a)
	}
	if a.Requests.Admitted != b.Requests.Admitted || a.Flows[0].Served != b.Flows[0].Served {
		t.Error("a second run gave something else")
	}
	_, out, _ := runSimulate(t, t.Context(), helpScenario(t), "-f", "-", "-o", "yaml", "--duration", "12s", "--seed",
		"9")
	var short struct {
		Seed            int
		DurationSeconds float64 `yaml:"durationSeconds"`
		Events          []any
	}
	if err := yaml.Unmarshal([]byte(out), &short); err != nil || short.Seed != 9 || short.DurationSeconds != 12 ||
		len(short.Events) != 1 {
		t.Errorf("%+v (%v), want seed 9, 12 s and one event left", short, err)
	}
	drawing := filepath.Join(t.TempDir(), "out.svg")
	_, out, _ = runSimulate(t, t.Context(), helpScenario(t), "-f", "-", "--plot", drawing)
	if drawn, err := os.ReadFile(drawing); err != nil || !bytes.Contains(drawn, []byte("Titrate: pool api")) {
		t.Errorf("the drawing has %d bytes: %v", len(drawn), err)
	}
	for _, want := range []string{"30 s on 3 gateways", "acme", "bolt/each", "20 clients", "heal", "WORST EXCESS"} {
		if !strings.Contains(out, want) || strings.Contains(out, "\x1b") {
			t.Errorf("no plain %q in\n%s", want, out)
		}
	}
}

func TestSimulateRefusesWithPlaceAndStatus2(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scenario.yaml")
	text := strings.Replace(helpScenario(t), "capacity: 300", "capacity: .nan", 1) + "\n      gosip: {}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := runSimulate(t, t.Context(), "", "-f", file)
	if status != command.ExitUsage || out != "" {
		t.Errorf("status %d, output %q", status, out)
	}
	for _, want := range []string{file + ":1: spec.capacity: ", ": spec.gosip: unknown field"} {
		if !strings.Contains(errs, want) {
			t.Errorf("no %q in\n%s", want, errs)
		}
	}
	for _, c := range []struct{ stdin, args, want string }{
		{"", "-f -", "<stdin>: no document of kind Scenario"},
		{"", "-f nowhere.yaml", "nowhere.yaml"},
		{"", "", `"file" not set`},
		{"", "-f - --plot out.jpg", "--plot: out.jpg: cannot draw .jpg: want .svg or .png"},
		{"", "-f - --plot no/where/out.svg", "--plot no/where/out.svg: no such directory"},
		{"", "-f - --panels magic", "--panels magic: want some of pools, tenants"},
		{"", "-f - --baseline magic", "--baseline magic: want "},
		{helpScenario(t), "-f - --duration 1ms", "duration: want 1s to 24h0m0s, found 1ms"},
	} {
		if status, _, errs := runSimulate(t, t.Context(), c.stdin,
			strings.Fields(c.args)...); status != command.ExitUsage ||
			!strings.Contains(errs, c.want) {
			t.Errorf("%s: status %d: %s", c.args, status, errs)
		}
	}
}

func TestSimulateInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	status, out, errs := runSimulate(t, ctx, helpScenario(t), "-f", "-")
	if status != command.ExitFailed || out != "" || !strings.Contains(errs, "interrupted at 0 % of the way") {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
}

// Traces are in the directory of the scenario that names them.
func TestSimulateTrace(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "scenario.yaml")
	const head = "- {apiVersion: titrate.dev/v1alpha1, kind: "
	scenario := head + "Tenant, name: tenants/a}\n" + head + "Limit, name: tenants/a/limits/each, spec: {rate: 1/s}}\n" +
		head + "Scenario, spec: {duration: 5s, replicas: 1, clients: [{name: x, demand: {trace: r.csv}}]}}\n"
	for path, text := range map[string]string{file: scenario,
		filepath.Join(dir, "r.csv"): "t,client,cost\n1,alice,1\n1.1,alice,1\n1.2,bob,1\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	status, out, errs := runSimulate(t, t.Context(), "", "-f", file)
	if status != command.ExitOK || !strings.Contains(out, "3 requests, 2 admitted, 1 rejected") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
}

func TestSimulateRunsEveryExample(t *testing.T) {
	if testing.Short() {
		t.Skip("plays every example")
	}
	files, _ := filepath.Glob("../../lab/examples/simulate-*.yaml")
	if len(files) == 0 {
		t.Fatal("no examples")
	}
	for _, file := range files {
		if strings.HasSuffix(file, "-large-fleet.yaml") {
			continue // it takes minutes; package simulate plays it cut short
		}
		if status, _, errs := runSimulate(t, t.Context(), "", "-f", file); status != command.ExitOK || errs != "" {
			t.Errorf("%s: status %d: %s", file, status, errs)
		}
	}
}
