package charts

import (
	"os"
	"strings"
	"testing"

	"github.com/titrate/titrate/e2e/guide"
)

// A gateway that ends asks its clients to close their connections, and serves them until it receives a signal
// to end. The test has Envoy with the chart's configuration, and the hook that a kubelet runs before.
func TestGatewayDrains(t *testing.T) {
	envoy, module := os.Getenv("ENVOY_BIN"), abs(t, "../../bin/libtitrate.so")
	if _, err := os.Stat(module); envoy == "" || err != nil {
		t.Skip("needs ENVOY_BIN and bin/libtitrate.so: `make build envoy`, then `make e2e`")
	}
	r := renderAll(t, "--set", "gateway.drainSeconds=2,gateway.concurrency=1")
	container := r.pods["demo-gateway"].Containers[0]
	hook := container.Lifecycle.PreStop.Exec.Command
	if len(hook) != 3 || hook[0] != "bash" || hook[1] != "-c" {
		t.Fatalf("%q", hook)
	}
	dir := guide.Clone(t, map[string]string{"libtitrate.so": module}, map[string]string{"envoy": envoy})
	for name, text := range map[string]string{"envoy.yaml": r.maps["demo-envoy"].Data["envoy.yaml"], "hook": hook[2]} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := strings.ReplaceAll(strings.Join(container.Args, " "), "/etc/envoy/", "")
	said := guide.Run(t, dir, `
export ENVOY_DYNAMIC_MODULES_SEARCH_PATH=$PWD/bin
envoy `+args+` >envoy.log 2>&1 &
curl -sf --retry 60 --retry-delay 1 --retry-all-errors -o ready.txt http://127.0.0.1:9901/ready
closes() { curl -si http://127.0.0.1:8000/ | tr -d '\r' | grep -qi '^connection: close'; }
if closes; then echo 'closes before'; fi
bash hook & hook=$!
for _ in $(seq 100); do closes && break; sleep 0.05; done
closes && echo 'closes while it drains'
wait $hook && echo 'the hook is done'
curl -so answer.txt -w 'serves %{http_code}\n' http://127.0.0.1:8000/
curl -sf -o ready.txt -w 'ready %{http_code}\n' http://127.0.0.1:9901/ready
`)
	// 503: there is no upstream. Envoy itself answers.
	const want = "closes while it drains\nthe hook is done\nserves 503\nready 200\n"
	if !strings.HasSuffix(said, want) || strings.Contains(said, "before") {
		t.Errorf("%s\nwant it to end with\n%s", said, want)
	}
}
