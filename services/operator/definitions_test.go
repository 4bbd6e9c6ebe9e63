package operator

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write the chart's definitions anew")

const definitions = "../../charts/titrate/files/crds.yaml"

// The chart has the definitions as the code has them.
func TestDefinitionsOfTheChart(t *testing.T) {
	want, err := Definitions()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(definitions, want, 0o644); err != nil { //nolint:gosec // no secret
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(definitions)
	if err != nil || string(got) != string(want) {
		t.Errorf("%s is not as the code: write it anew with -update (%v)", definitions, err)
	}
}
