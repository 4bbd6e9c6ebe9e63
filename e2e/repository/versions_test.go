package repository

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/titrate/titrate/services/command"
)

// TestVersionsAgree: containers have the versions that the tests run as processes.
func TestVersionsAgree(t *testing.T) {
	sources := map[string]struct{ file, pattern string }{
		"etcd":  {"lab/go.mod", `go\.etcd\.io/etcd/server/v3 (v[0-9.]+)`},
		"Envoy": {"Makefile", `(?m)^ENVOY\s+:= ([0-9.]+)$`},

		"Envoy Gateway": {"Makefile", `(?m)^GATEWAY\s+:= ([0-9.]+)$`},
		"Kubernetes":    {"tools/kubernetes/go.mod", `k8s\.io/kubernetes v([0-9.]+)`},
	}
	uses := map[string]*regexp.Regexp{
		"etcd":  regexp.MustCompile(`coreos/etcd:(v[0-9.]+)`),
		"Envoy": regexp.MustCompile(`(?:envoyproxy/envoy:v|envoyVersion: |envoy-versions/)([0-9.]+)`),

		"Envoy Gateway": regexp.MustCompile(`Envoy Gateway (\d+\.\d+\.\d+)`),
		"Kubernetes":    regexp.MustCompile(`Kubernetes (\d+\.\d+\.\d+)`),
	}
	read := func(file string) string {
		raw, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for what, source := range sources {
		found := regexp.MustCompile(source.pattern).FindStringSubmatch(read(source.file))
		if found == nil {
			t.Fatalf("%s names no version of %s", source.file, what)
		}
		for _, file := range []string{"docker-compose.yml", "charts/titrate/values.yaml", "deploy/gateway.Dockerfile",
			"e2e/containers/cluster_test.go", "e2e/kubernetes/installed_test.go", "e2e/kubernetes/gateway_node_test.go",
			"docs/your-own-envoy.md", "docs/envoy-gateway.md",
			"docs/compatibility.md", "charts/titrate/README.md"} {
			for _, use := range uses[what].FindAllStringSubmatch(read(file), -1) {
				if use[1] != found[1] {
					t.Errorf("%s runs %s %s, %s has %s", file, what, use[1], source.file, found[1])
				}
			}
		}
	}
}

// The tests run the Envoys that the page of compatible versions names.
func TestCompatibleEnvoys(t *testing.T) {
	read := func(file string) string {
		raw, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	lines := regexp.MustCompile(`(?m)^(?:OLDER_)?ENVOYS? +:= ([0-9. ]+)$`).FindAllStringSubmatch(read("Makefile"), -1)
	var tested []string
	for _, line := range lines {
		tested = append(tested, strings.Fields(line[1])...)
	}
	var named []string
	for _, row := range regexp.MustCompile(`(?m)^\| Envoy (\d+\.\d+\.\d+) \|`).FindAllStringSubmatch(
		read("docs/compatibility.md"), -1) {
		named = append(named, row[1])
	}
	slices.Sort(tested)
	slices.Sort(named)
	if len(tested) < 2 || !slices.Equal(tested, named) {
		t.Errorf("docs/compatibility.md names Envoy %v, the Makefile tests %v", named, tested)
	}
}

// The release is stated in one place. The packaged chart has it from there, and the list of changes begins with it.
func TestReleaseIsStatedOnce(t *testing.T) {
	read := func(file string) string {
		raw, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(command.Release) {
		t.Errorf("services/command/version.go has the release %q, want one such as 1.2.3", command.Release)
	}
	if first := regexp.MustCompile(`(?m)^## (\S+)`).FindStringSubmatch(read("CHANGELOG.md")); first[1] != command.Release {
		t.Errorf("CHANGELOG.md begins with %s, services/command/version.go has %s", first[1], command.Release)
	}
	if chart := read("charts/titrate/Chart.yaml"); !strings.Contains(chart, "\nversion: 0.0.0\n") {
		t.Errorf("Chart.yaml states a version beside 0.0.0, which make release replaces:\n%s", chart)
	}
}
