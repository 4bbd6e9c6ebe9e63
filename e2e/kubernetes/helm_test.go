package kubernetes

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// helm runs the pinned Helm against the cluster, in the namespace titrate. Without a node, pods that Helm waits
// for succeed while it runs.
func (c *cluster) helm(t *testing.T, args ...string) string {
	t.Helper()
	args = append([]string{"tool", "helm", "--kubeconfig", c.kubeconfig}, args...)
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = "../../tools/helm"
	cmd.Env = append(os.Environ(), "GOWORK=off", "HELM_NAMESPACE=titrate", "HELM_CACHE_HOME="+t.TempDir())
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	done := make(chan error, 1)
	go func() { done <- cmd.Run() }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("go %v: %v\n%s%s", args, err, out.String(), problems.String())
			}
			return out.String()
		case <-tick.C:
			if !c.runs {
				c.finish(t)
			}
		}
	}
}

// finish marks each Job and each pod as succeeded, as a node would at last: there is no node here.
func (c *cluster) finish(t *testing.T) {
	t.Helper()
	now := time.Now().UTC().Format(time.RFC3339)
	condition := func(name string) map[string]string {
		return map[string]string{"type": name, "status": "True", "lastTransitionTime": now}
	}
	for path, status := range map[string]any{
		"/api/v1/namespaces/titrate/pods": map[string]any{"phase": "Succeeded"},
		"/apis/batch/v1/namespaces/titrate/jobs": map[string]any{"startTime": now, "completionTime": now, "succeeded": 1,
			"conditions": []any{condition("SuccessCriteriaMet"), condition("Complete")}},
	} {
		var list struct {
			Items []struct {
				Metadata struct{ Name string }
				Status   struct {
					Phase     string
					Succeeded int
				}
			}
		}
		c.get(t, path, &list)
		for _, o := range list.Items {
			if o.Status.Succeeded > 0 || o.Status.Phase == "Succeeded" {
				continue
			}
			at := fmt.Sprintf("%s/%s/status", path, o.Metadata.Name)
			said := c.call(t, admin, http.MethodPatch, at, map[string]any{"status": status})
			if said.code != http.StatusOK && said.code != http.StatusNotFound {
				t.Errorf("PATCH %s: %d %s", at, said.code, said.text)
			}
		}
	}
}

func abs(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
