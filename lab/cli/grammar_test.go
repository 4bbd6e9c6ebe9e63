package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/titrate/titrate/services/command"
)

// The same documents can be applied, played and worked out: solve passes over a Scenario, and what titrate get prints
// is read by solve and simulate.
func TestOneGrammar(t *testing.T) {
	status, out, errs := runSolve(t, "", "-f", "../examples/simulate-4-partition.yaml")
	if status != command.ExitOK || !strings.Contains(out, "bolt") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
	stored, err := os.ReadFile("../../services/cli/testdata/get-yaml.golden")
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Tenants []struct{ Share float64 } }
	status, out, errs = runSolve(t, string(stored), "-f", "-", "-o", "json")
	if err := json.Unmarshal([]byte(out), &answer); err != nil || status != command.ExitOK || len(answer.Tenants) != 4 ||
		answer.Tenants[0].Share != 200 {
		t.Errorf("status %d: %+v (%v) %s", status, answer, err, errs)
	}
	played := filepath.Join(t.TempDir(), "scenario.yaml")
	text := "apiVersion: titrate.dev/v1alpha1\nkind: Scenario\nspec: {duration: 2s, replicas: 1, clients: [{name: x, " +
		"tenant: acme, pool: api, demand: {constant: 40/s}}]}\n"
	if err := os.WriteFile(played, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs = runSimulate(t, t.Context(), string(stored), "-f", "-", "-f", played)
	if status != command.ExitOK || !strings.Contains(out, "acme") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
}
