package load

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/lab/dev/scenario"
	"github.com/titrate/titrate/lab/dev/trace"
	"github.com/titrate/titrate/lab/dev/upstream"
	"github.com/titrate/titrate/services/wording"
)

// Headers that name tenants and clients for the demo's gateways, and headers in which gateways report their
// decisions.
const (
	TenantHeader = "x-tenant"
	ClientHeader = "x-client"
	markHeader   = "x-titrate-congestion"
	waitHeader   = "x-titrate-wait-ms"
	reasonHeader = "x-titrate-reason"
)

// Generator sends a plan's requests.
type Generator struct {
	// URLs of the gateways, in the scenario's order.
	URLs []string
	// MaxInFlight bounds the requests without an answer. Larger needs more
	// file descriptors, smaller drops starts when the system is slow.
	// Default 4096.
	MaxInFlight int
	// Timeout bounds one request. It must be longer than the longest wait at a gateway. Default 10 s.
	Timeout time.Duration
	// Observe, if set, sees each record as it ends. It is called from many
	// goroutines at once.
	Observe func(*trace.Record)
}

// Run sends the plan from start on and returns one record per shot, in the order of their ends. When ctx ends
// before the plan, it sends no more, abandons requests in flight, and returns the context's error.
func (g *Generator) Run(ctx context.Context, s *scenario.Scenario, plan []Shot,
	start time.Time) ([]trace.Record, error) {
	if len(g.URLs) != len(s.Gateways) {
		return nil, fmt.Errorf("load: %s for %s", wording.Count(len(g.URLs), "URL"),
			wording.Count(len(s.Gateways), "gateway"))
	}
	r := &run{Generator: g, scenario: s, start: start, client: newClient(g.timeout())}
	defer r.client.CloseIdleConnections()
	r.records = make([]trace.Record, 0, len(plan))
	for i := range plan {
		if !sleepUntil(ctx, r.due(plan[i].T)) {
			break
		}
		r.launch(ctx, plan[i])
	}
	r.flying.Wait()
	return r.records, ctx.Err()
}

func (g *Generator) timeout() time.Duration {
	if g.Timeout > 0 {
		return g.Timeout
	}
	return 10 * time.Second
}

func (g *Generator) maxInFlight() int64 {
	if g.MaxInFlight > 0 {
		return int64(g.MaxInFlight)
	}
	return 4096
}

type run struct {
	*Generator
	scenario *scenario.Scenario
	start    time.Time
	client   *http.Client

	flying   sync.WaitGroup
	inFlight atomic.Int64

	mu      sync.Mutex // guards records, taken once per request at its end
	records []trace.Record
}

func (r *run) due(t float64) time.Time {
	return r.start.Add(time.Duration(t * float64(time.Second)))
}

// launch starts one request without waiting for it.
func (r *run) launch(ctx context.Context, shot Shot) {
	tenant := &r.scenario.Tenants[shot.Tenant]
	rec := trace.Record{
		T:       shot.T,
		Gateway: r.scenario.Gateways[shot.Gateway].Name,
		Tenant:  tenant.Name,
		Client:  tenant.Clients[shot.Client].Name,
	}
	if r.inFlight.Add(1) > r.maxInFlight() {
		r.inFlight.Add(-1)
		rec.Error = trace.Dropped
		r.end(&rec)
		return
	}
	r.flying.Go(func() {
		defer r.inFlight.Add(-1)
		r.send(ctx, shot, &rec)
		r.end(&rec)
	})
}

// send sends one request and records its outcome.
func (r *run) send(ctx context.Context, shot Shot, rec *trace.Record) {
	due := r.due(shot.T)
	rec.Late = max(0, time.Since(due).Seconds())
	defer func() { rec.Latency = time.Since(due).Seconds() }()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URLs[shot.Gateway], nil)
	if err != nil {
		rec.Error = err.Error()
		return
	}
	req.Header.Set(TenantHeader, rec.Tenant)
	req.Header.Set(ClientHeader, rec.Client)
	resp, err := r.client.Do(req)
	if err != nil {
		rec.Error = failure(ctx, err)
		return
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		rec.Error = failure(ctx, err)
		return
	}
	r.fill(rec, resp)
}

// failure says why a request has no answer.
func failure(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return trace.Aborted
	}
	return err.Error()
}

func (r *run) fill(rec *trace.Record, resp *http.Response) {
	rec.Status = resp.StatusCode
	rec.Mark = resp.Header.Get(markHeader) != ""
	rec.Reason = resp.Header.Get(reasonHeader)
	rec.WaitMs, _ = strconv.ParseFloat(resp.Header.Get(waitHeader), 64) // absent = 0
	arrival, err := strconv.ParseInt(resp.Header.Get(upstream.ArrivalHeader), 10, 64)
	if err == nil {
		// A wall clock of the same host on both sides; never before the start.
		rec.At = max(1e-6, float64(arrival-r.start.UnixNano())/1e9)
	}
}

func (r *run) end(rec *trace.Record) {
	r.mu.Lock()
	r.records = append(r.records, *rec)
	r.mu.Unlock()
	if r.Observe != nil {
		r.Observe(rec)
	}
}

// newClient keeps every connection that it ever opened: closing and opening
// them would be the generator's work, not the system's.
func newClient(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: timeout}).DialContext,
			MaxIdleConns:        0,
			MaxIdleConnsPerHost: 1 << 16,
			IdleConnTimeout:     time.Minute,
			DisableCompression:  true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// sleepUntil reports false if ctx ended first.
func sleepUntil(ctx context.Context, at time.Time) bool {
	wait := time.Until(at)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
