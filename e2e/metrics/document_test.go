package metrics

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/titrate/titrate/papers/markdown"
	"github.com/titrate/titrate/services/agent"
	"github.com/titrate/titrate/services/coordinator"
	"github.com/titrate/titrate/services/operator"
	"github.com/titrate/titrate/services/telemetry"
)

var update = flag.Bool("update", false, "write the parts of docs/metrics.md anew")

const metricsDocument = "../../docs/metrics.md"

// table is a table of metrics for a document.
func table(metrics []telemetry.Description) string {
	var rows [][]string
	for _, m := range metrics {
		labels := "none"
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		rows = append(rows, []string{"`" + m.Name + "`", string(m.Kind), labels, m.Help})
	}
	return markdown.Table([]string{"metric", "kind", "labels", "meaning"}, rows)
}

// The document has the metrics of agent, coordinator and operator as they are.
func TestMetricsDocument(t *testing.T) {
	ofCoordinator, err := coordinator.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	for writer, metrics := range map[string][]telemetry.Description{"services/agent": agent.Metrics(),
		"services/coordinator": ofCoordinator, "services/operator": operator.Metrics()} {
		for _, m := range metrics {
			if m.Help == "" || !strings.HasPrefix(m.Name, "titrate_") {
				t.Errorf("%+v: a metric has a name that begins with titrate_, and a help", m)
			}
		}
		want := table(metrics)
		if *update {
			if err := markdown.Update(metricsDocument, writer, want); err != nil {
				t.Fatal(err)
			}
		}
		raw, err := os.ReadFile(metricsDocument)
		if err != nil {
			t.Fatal(err)
		}
		got, err := markdown.Part(string(raw), writer)
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%s: the part of %s is not as the code: write it anew with -update", metricsDocument, writer)
		}
	}
}
