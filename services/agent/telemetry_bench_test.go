package agent

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
	"github.com/titrate/titrate/services/agent/core"
)

// BenchmarkTelemetry measures the cost of telemetry for an agent of two gateways, next to its work. The gateways share
// 100,000 keys that are in use: each key's claim changes once a second. Each gateway reports 1,000 tenants with a limit
// each, four times a second, and Prometheus scrapes the agent every 15 s. Work and scrapes are measured one after the
// other in the same run, in CPU time of the process. The part for taking reports is given as well.
func BenchmarkTelemetry(b *testing.B) {
	const keys, scrapeEvery = 100_000, 15 * time.Second
	c := Config{Name: "a-1", Gossip: "127.0.0.1:0", Admin: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
		Socket: filepath.Join(b.TempDir(), "a.sock")}
	a, err := c.Complete(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	defer a.close()
	a.start = time.Now()
	now := time.Second
	for g := range 2 {
		hello := link.Hello{Version: link.Version, Replica: fmt.Sprint("gw-", g), Generation: 1, Weight: 1}
		a.core.Connected(now, core.Link(g+1), hello, 0)
	}
	var work, reports, scraping time.Duration
	var scrapes int
	for b.Loop() {
		began := cpu(b)
		for end := now + scrapeEvery; now < end; {
			now = second(b, a.core, now, keys, &reports)
		}
		work += cpu(b) - began
		a.start = time.Now().Add(-now) // the page is of this time
		began = cpu(b)
		w := httptest.NewRecorder()
		a.admin.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if n, _ := io.Copy(io.Discard, w.Body); w.Code != http.StatusOK || n < 10_000 {
			b.Fatalf("%d, %d bytes", w.Code, n)
		}
		scraping += cpu(b) - began
		scrapes++
	}
	seconds := float64(scrapes) * scrapeEvery.Seconds()
	b.ReportMetric(work.Seconds()*1000/seconds, "work-ms/s")
	b.ReportMetric(scraping.Seconds()*1000/float64(scrapes), "ms/scrape")
	b.ReportMetric(100*scraping.Seconds()/work.Seconds(), "scrapes-%")
	b.ReportMetric(100*reports.Seconds()/work.Seconds(), "reports-%")
}

// cpu is the CPU time of the process.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// second is a second of the agent's work.
func second(b *testing.B, c *core.Core, now time.Duration, keys int, reports *time.Duration) time.Duration {
	b.Helper()
	const periods = int(time.Second / exchange.DefaultPeriod)
	for p := range periods {
		for g := range 2 {
			claims := &exchange.Claims{}
			for k := p; k < keys; k += periods {
				claims.Keys = append(claims.Keys, exchange.KeyClaim{Key: uint64(k + 1), Claim: 5, Active: 1,
					Admitted: 5 * now.Seconds(), Spent: 1})
			}
			c.Received(now, core.Link(g+1), claims)
			if p%5 == 0 {
				r, began := reported(), cpu(b)
				c.Received(now, core.Link(g+1), r)
				*reports += cpu(b) - began
			}
		}
		for range 2 {
			now += exchange.DefaultPeriod / 2
			c.Tick(now)
		}
	}
	return now
}

// reported is a gateway's report of 1,000 tenants, each with a limit.
func reported() *exchange.Report {
	r := &exchange.Report{}
	for i := range 1000 {
		tenant := fmt.Sprint("tenant-", i)
		r.Flows = append(r.Flows, exchange.FlowReport{Tenant: tenant, Pool: "api",
			Counts: exchange.Counts{Admitted: 10, ClientLimit: 1}})
		r.Limits = append(r.Limits, exchange.LimitCounts{Tenant: tenant, Limit: "per-client",
			Counts: exchange.Counts{ClientLimit: 1}})
	}
	return r
}
