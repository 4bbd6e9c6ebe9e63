package envoytest

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/titrate/titrate/envoy-filter/adminpage"
)

var insight = launch{example: "insight.yaml", concurrency: 2}

// Refused and held requests are shown in the stats, on the page and in the access log.
func TestInsight(t *testing.T) {
	t.Parallel()
	e, _ := insight.linked(t, adaptive(setup(7, patient, capped("acme", 40), limited("globex", 0.01, 3))))
	for range many(t.Context(), e, 30, "x-tenant", "acme", "x-client", "alice") {
	}
	for range 8 {
		e.get("/", "x-tenant", "globex", "x-client", `bob"<b>`)
	}
	held := 0.0
	e.eventually("the waits", func() bool {
		held = e.metric(`titrate_wait_ms_count{pool="api",outcome="admitted"}`)
		return held >= 5 && held == e.metric(`titrate_waited_total{pool="api"}`)
	})
	sum, long := e.metric(`titrate_wait_ms_sum{pool="api",outcome="admitted"}`),
		e.metric(`titrate_wait_ms_bucket{pool="api",outcome="admitted",le="60000"}`)
	if mean := sum / held; mean < 5 || mean > 2000 || long != held {
		t.Errorf("%v waits of %v ms on average, %v of them within a minute", held, mean, long)
	}
	for _, gauge := range []string{`titrate_pool_held{pool="api"}`, `titrate_pool_in_flight{pool="api"}`} {
		if _, body := e.tryAdmin("/stats/prometheus"); !strings.Contains(body, gauge+" 0\n") {
			t.Errorf("no %s of 0", gauge)
		}
	}

	var o adminpage.Overview
	if err := json.Unmarshal([]byte(e.page(t, "?format=json", 200)), &o); err != nil {
		t.Fatal(err)
	}
	if o.Replica != "gw-1" || o.Revision != 7 || !o.Link.Connected || o.Shares.Epoch != 1 || len(o.Leases) != 2 ||
		o.Panics != 0 ||
		len(o.Refused) == 0 || o.Refused[0].Client != `bob"<b>` || o.Refused[0].Tenant != "globex" ||
		o.Refused[0].Count != 5 ||
		len(o.HeldMost) != 1 || o.HeldMost[0].Client != "alice" || o.HeldMost[0].Count <= 0 {
		t.Errorf("%+v", o)
	}
	text := e.page(t, "?tenant=globex&client=bob%22%3Cb%3E", 200)
	for _, piece := range []string{`pool "api": refused by limit "per-client": 0`, "refilled at 0.01/s", "globex"} {
		if !strings.Contains(text, piece) {
			t.Errorf("no %q in\n%s", piece, text)
		}
	}
	e.page(t, "?client=bob", 400)
	e.page(t, "d", 404)
	if _, help := e.tryAdmin("/help"); !strings.Contains(help, "/titrate: Titrate: ") {
		t.Errorf("the admin's help does not name the page:\n%s", help)
	}
	e.alive()
	e.term(t, func() {}) // which writes the access log
	for _, piece := range []string{`"details":"titrate_client_limit"`, `"client":"bob\"<b>"`, `"waitMs":"`} {
		if !strings.Contains(e.log.String(), piece) {
			t.Errorf("the access log has no %s", piece)
		}
	}
}

// term sends SIGTERM, and calls meanwhile until Envoy has ended.
func (e *envoy) term(t *testing.T, meanwhile func()) {
	t.Helper()
	if err := e.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for ended := false; !ended; {
		select {
		case <-e.exited:
			ended = true
		case <-time.After(time.Millisecond):
			meanwhile()
		}
	}
	if e.err != nil {
		t.Errorf("Envoy ended with %v:\n%s", e.err, e.log)
	}
}

// page requests /titrate followed by rest.
func (e *envoy) page(t *testing.T, rest string, status int) string {
	t.Helper()
	got, body := e.tryAdmin("/titrate" + rest)
	if got != status || body == "" {
		t.Fatalf("/titrate%s: status %d, want %d: %s", rest, got, status, body)
	}
	return body
}

// The page can be read under load, also while Envoy ends.
func TestPageUnderLoad(t *testing.T) {
	t.Parallel()
	e, _ := insight.linked(t, setup(1, patient, capped("acme", 400), limited("globex", 10, 10)))
	var load sync.WaitGroup
	for worker := range 4 {
		load.Go(func() {
			for i := range 200 {
				e.get("/", "x-tenant", []string{"acme", "globex"}[worker%2], "x-client", fmt.Sprint("client-", i%40))
			}
		})
	}
	for range 100 {
		e.page(t, "?limit=1000", 200)
		e.page(t, "?tenant=globex&client=client-1&format=json", 200)
	}
	load.Wait()
	e.alive()
	e.term(t, func() { e.tryAdmin("/titrate") })
}

// An Envoy without an admin port has no page, and logs this.
func TestNoAdminPort(t *testing.T) {
	t.Parallel()
	e := launch{example: insight.example, concurrency: 1,
		edits: []edit{{"admin:\n  address:\n    socket_address: { address: 127.0.0.1, port_value: 0 }\n", ""}}}.spawn(t)
	e.logged("starting main dispatch loop")
	e.logged("titrate: no link to the agent")
	e.alive()
}
