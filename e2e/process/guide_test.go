package process

import (
	"strings"
	"testing"

	"github.com/titrate/titrate/e2e/guide"
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
	return guide.Clone(t, map[string]string{"titrate": b.titrate, "libtitrate.so": b.module}, others)
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
	said := guide.Run(t, b.clone(t, map[string]string{"envoy": b.envoy}),
		script(t, ownEnvoy, "Binaries", "Static configuration"))
	guide.CheckLimited(t, said)
	contains(t, said, `"reason":"client_limit","tenant":"acme"`, "\nbob 200\n", "\nhealth 200\n")
}

// The same with a listener that Envoy gets by xDS.
func TestGuideXDS(t *testing.T) {
	b := need(t)
	said := guide.Run(t, b.clone(t, map[string]string{"envoy": b.envoy}), script(t, ownEnvoy, "Binaries", "xDS"))
	guide.CheckLimited(t, said)
}
