package charts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The ConfigMap has each dashboard as it is, under the label that Grafana's sidecar looks for; without
// the value there is none.
func TestDashboards(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(chart, "files", "dashboards", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var found *corev1.ConfigMap
	for _, object := range decode(t, render(t, "--set", "metrics.dashboards=true")) {
		if m, ok := object.(*corev1.ConfigMap); ok && strings.HasSuffix(m.Name, "-dashboards") {
			found = m
		}
	}
	if found == nil || found.Labels["grafana_dashboard"] != "1" || len(found.Data) != len(files) {
		t.Fatalf("%d dashboards, the ConfigMap is %v", len(files), found)
	}
	for _, file := range files {
		want, err := os.ReadFile(file)
		if got := found.Data["titrate-"+filepath.Base(file)]; err != nil || got+"\n" != string(want) {
			t.Errorf("%s is changed in the ConfigMap (%v)", file, err)
		}
	}
	if strings.Contains(render(t), "-dashboards") {
		t.Error("there is a ConfigMap without metrics.dashboards")
	}
}
