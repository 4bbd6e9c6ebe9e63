package envoytest

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/titrate/titrate/control/config"
)

// If a decision panics, the pool's policy for lost shares decides, or else the boot
// policy. Envoy and other requests go on.
func TestPanicObeysThePolicy(t *testing.T) {
	t.Parallel()
	needEnvoy(t)
	dir := t.TempDir()
	if err := build(filepath.Join(dir, "libtitrate.so"), "..", "titratefault"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		loss   config.OnLoss
		boot   string
		status int
	}{
		"open":               {config.Open, "CLOSED", http.StatusOK},
		"safe rate":          {config.SafeRate, "OPEN", http.StatusServiceUnavailable},
		"freeze, boot open":  {config.Freeze, "OPEN", http.StatusOK},
		"freeze, boot close": {config.Freeze, "CLOSED", http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := setup(1, patient, limited("acme", 1000, 1000), capped("slow", 1))
			state[0].(*config.Config).Pools[0].OnLoss = c.loss
			e, _ := launch{example: quickstart, concurrency: 1,
				environment: []string{"ENVOY_DYNAMIC_MODULES_SEARCH_PATH=" + dir},
				edits:       []edit{{"boot_policy: OPEN", "boot_policy: " + c.boot}}}.linked(t, state)
			panics := 0
			for _, who := range []string{"panic-in-decide", "nil-in-decide", "panic-in-decide"} {
				panics++
				if a := e.get("/", "x-tenant", "acme", "x-client", who); a.status != c.status {
					t.Errorf("a decision that panics: %+v, want %d", a, c.status)
				}
				if a := e.get("/", "x-tenant", "acme", "x-client", "alice"); a.status != http.StatusOK {
					t.Errorf("another client meanwhile: %+v", a)
				}
			}
			for a := range many(t.Context(), e, 4, "x-tenant", "slow", "x-client", "panic-in-enqueue") {
				if a.status != c.status && a.status != http.StatusOK { // the first pass without a queue
					t.Errorf("a request that panics as it is queued: %+v, want %d", a, c.status)
				}
			}
			e.eventually("the counter", func() bool {
				return e.metric("titrate_panics_total{}") > float64(panics) && e.metric("titrate_held{}") == 0
			})
			if !strings.Contains(e.log.String(), "recovered a panic in decision") {
				t.Errorf("no panic in the log:\n%s", e.log)
			}
		})
	}
}
