package charts

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// alerts is a file of Prometheus' rules.
type alerts struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

// Alerts ask for metrics that coordinators and agents have, and say what to do.
func TestAlerts(t *testing.T) {
	raw, err := os.ReadFile(chart + "/files/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var a alerts
	if err := yaml.UnmarshalStrict(raw, &a); err != nil || len(a.Groups) != 1 || len(a.Groups[0].Rules) < 5 {
		t.Fatalf("%v: %+v", err, a)
	}
	known := metrics(t)
	for _, r := range a.Groups[0].Rules {
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.Labels["severity"] == "" ||
			r.For == "" {
			t.Errorf("%s lacks something: %+v", r.Alert, r)
		}
		for _, name := range regexp.MustCompile(`titrate_\w+`).FindAllString(r.Expr, -1) {
			if !known[name] {
				t.Errorf("%s asks for %s, which nobody has", r.Alert, name)
			}
		}
	}
}

// metrics are the names in the code of the services, as Prometheus has those without a unit.
func metrics(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir("../../services", func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`"(titrate[._][a-z._]+)"`).FindAllStringSubmatch(string(text), -1) {
			names[strings.ReplaceAll(m[1], ".", "_")] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
