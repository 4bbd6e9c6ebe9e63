package process

import (
	"os"
	"strings"
	"testing"

	"github.com/titrate/titrate/e2e/guide"
	"github.com/titrate/titrate/lab/installation"
)

const ownEnvoy = "../../docs/your-own-envoy.md"

func script(t *testing.T, page string, headings ...string) string {
	t.Helper()
	var all strings.Builder
	for _, heading := range headings {
		for _, block := range guide.Blocks(t, page, heading, "sh") {
			all.WriteString(block)
		}
	}
	return all.String()
}

func (b binaries) clone(t *testing.T, others map[string]string) string {
	t.Helper()
	return guide.Clone(t, map[string]string{"titrate": b.titrate, "titrate-lab": b.lab, "libtitrate.so": b.module}, others)
}

func contains(t *testing.T, said string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(said, want) {
			t.Errorf("the guide's commands do not say %q:\n%s", want, said)
		}
	}
}

// The guide's static configuration, from nothing to a limited request.
func TestGuideStatic(t *testing.T) {
	b := need(t)
	t.Parallel()
	said := guide.Run(t, b.clone(t, map[string]string{"envoy": b.envoy}),
		script(t, ownEnvoy, "Binaries", "Static configuration"))
	guide.CheckLimited(t, said)
	contains(t, said, `"reason":"client_limit","tenant":"acme"`, "\nbob 200\n", "\nhealth 200\n")
}

// The same with a listener that Envoy gets by xDS.
func TestGuideXDS(t *testing.T) {
	b := need(t)
	t.Parallel()
	said := guide.Run(t, b.clone(t, map[string]string{"envoy": b.envoy}), script(t, ownEnvoy, "Binaries", "xDS"))
	guide.CheckLimited(t, said)
}

// runEnvoyGateway runs a section of the guide to Envoy Gateway, after the commands that all sections begin with.
func runEnvoyGateway(t *testing.T, heading string) string {
	t.Helper()
	gateway := os.Getenv("ENVOY_GATEWAY_BIN")
	if gateway == "" {
		t.Skip("ENVOY_GATEWAY_BIN is not set to an envoy-gateway binary; `make e2e-gateway` builds one")
	}
	b := need(t)
	commands := script(t, "../../docs/envoy-gateway.md", "To try it", heading)
	if other := os.Getenv("ENVOY_VERSION"); other != "" { // that of ENVOY_BIN
		commands = strings.ReplaceAll(commands, installation.EnvoyVersion, other)
	}
	said := guide.Run(t, b.clone(t, map[string]string{"envoy": b.envoy, "envoy-gateway": gateway}), commands)
	t.Log(said)
	return said
}

// Envoy Gateway starts an Envoy with the module, and its policies say whose a request is.
func TestGuideEnvoyGateway(t *testing.T) {
	said := runEnvoyGateway(t, "Standalone")
	guide.CheckLimited(t, said)
	contains(t, said, "search 200\nsearch 200\nsearch 429\nsearch 429\n")
}

// An agent is Envoy Gateway's rate limit service: it enforces the global limits of a policy, takes a change,
// and keeps limits and counters while Envoy Gateway is gone.
func TestGuideEnvoyGatewayRateLimits(t *testing.T) {
	said := runEnvoyGateway(t, "Its rate limit service")
	contains(t, said, "     20 200\n     20 429\n", "     30 bob 200\n", "     10 bob 429\n",
		"limits are kept\n", "bob again 429\n")
}
