package agent

import (
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/services/telemetry"
)

// told returns a gateway's decisions: requests that waited so long, and a refused one without a wait.
func told(tenant, heldBy string, refused bool, waited ...time.Duration) *exchange.Decisions {
	d := &exchange.Decisions{List: []exchange.Decision{{Tenant: tenant, Pool: "api", Refused: true}}}
	for _, w := range waited {
		d.List = append(d.List, exchange.Decision{Tenant: tenant, Pool: "api", HeldBy: heldBy, Refused: refused, Waited: w})
	}
	return d
}

// Waits are histograms in seconds by gateway, tenant, pool, limit and outcome; those of the 101st
// combination and of all later ones are tenant _other. Names that are not configured have one series.
func TestWaits(t *testing.T) {
	m, err := telemetry.Meters{}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w, err := newWaits(m.Meter("test"))
	if err != nil {
		t.Fatal(err)
	}
	configured := func(tenant, pool string) (string, string) {
		if strings.HasPrefix(tenant, "unknown") {
			tenant = config.DefaultTenant
		}
		return tenant, pool
	}
	for i := range 200 {
		w.heard("gw-1", told(fmt.Sprint("unknown", i), "", false, time.Second), configured)
	}
	w.heard("gw-1", told("acme", "tenant-share", false, 15*time.Millisecond, 40*time.Millisecond), configured)
	w.heard("gw-1", told("acme", "each", false, 2*time.Second), configured)
	w.heard("gw-1", told("acme", "each", true, 3*time.Second), configured)
	w.heard("gw-1", &exchange.Claims{}, configured)
	for i := range 200 {
		w.heard("gw-2", told(fmt.Sprint("t", i), "", false, time.Second), configured)
	}
	page := httptest.NewRecorder()
	m.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	text, err := io.ReadAll(page.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`_bucket{gateway="gw-1",limit="tenant-share",outcome="admitted",pool="api",tenant="acme",le="0.01"} 0`,
		`_bucket{gateway="gw-1",limit="tenant-share",outcome="admitted",pool="api",tenant="acme",le="0.02"} 1`,
		`_count{gateway="gw-1",limit="tenant-share",outcome="admitted",pool="api",tenant="acme"} 2`,
		`_sum{gateway="gw-1",limit="each",outcome="admitted",pool="api",tenant="acme"} 2`,
		`_sum{gateway="gw-1",limit="each",outcome="refused",pool="api",tenant="acme"} 3`,
		`_count{gateway="gw-2",limit="",outcome="admitted",pool="api",tenant="t96"} 1`,
		`_count{gateway="",limit="",outcome="admitted",pool="",tenant="_other"} 103`,
		`_count{gateway="gw-1",limit="",outcome="admitted",pool="api",tenant="-"} 200`,
	} {
		if !strings.Contains(string(text), "\ntitrate_agent_wait_seconds"+line+"\n") {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
	if n := strings.Count(string(text), "\ntitrate_agent_wait_seconds_count{"); n != 102 {
		t.Errorf("%d series, want 102", n)
	}
}

// What a gateway's report of 256 requests that were held costs, the most each 250 ms, and a scrape of as
// many series as there can be.
func BenchmarkWaits(b *testing.B) {
	m, err := telemetry.Meters{}.Open(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	w, err := newWaits(m.Meter("test"))
	if err != nil {
		b.Fatal(err)
	}
	d := &exchange.Decisions{}
	for i := range 256 {
		d.List = append(d.List, exchange.Decision{Tenant: fmt.Sprint("t", i), Pool: "api", Waited: time.Second})
	}
	b.Run("report", func(b *testing.B) {
		for b.Loop() {
			w.heard("gw-1", d, func(tenant, pool string) (string, string) { return tenant, pool })
		}
	})
	b.Run("scrape", func(b *testing.B) {
		for b.Loop() {
			page := httptest.NewRecorder()
			m.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
			b.ReportMetric(float64(page.Body.Len()), "bytes")
		}
	})
}
