package process

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/settings"
	"github.com/titrate/titrate/envoy-filter/slots"
	"github.com/titrate/titrate/envoy-filter/stats"
)

// recorder records the process's calls of Envoy.
type recorder struct {
	mu     sync.Mutex
	log    strings.Builder
	gauges map[stats.Metric]uint64
	events []limiter.Event
}

func (r *recorder) Count(stats.Metric, uint64, ...string)           {}
func (r *recorder) Observe(stats.Metric, uint64, uint64, ...string) {}
func (r *recorder) Set(m stats.Metric, value uint64, _ ...string)   { r.gauges[m] = value }

func (r *recorder) write(_ Level, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.WriteString(text + "\n")
}

func (r *recorder) written() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

func newProcess(t *testing.T, wait time.Duration) (*Process, *recorder) {
	t.Helper()
	r := &recorder{gauges: map[stats.Metric]uint64{}}
	b := &settings.Bootstrap{
		AgentSocket: filepath.Join(t.TempDir(), "agent.sock"), Replica: "gw-1", Weight: 1, Keys: 1024,
		UnknownStatus: http.StatusForbidden, BootWait: wait,
	}
	return New(Options{
		Settings: b, Slots: slots.New(func(limiter.Names) {}), Sink: r, Log: r.write,
		Deliver:   func(events []limiter.Event) { r.events = append(r.events, events...) },
		OnWake:    func() {},
		NewFlight: func() *limiter.Flight { return &limiter.Flight{} },
		OnWanted:  func(limiter.Wanted) {},
	}), r
}

// A process without an agent decides by its boot policy, publishes and ends. Envoy gets no
// traffic before boot_wait has passed.
func TestProcessWithoutAnAgent(t *testing.T) {
	p, r := newProcess(t, time.Hour)
	p.Start()
	p.Start()
	if p.Ready() {
		t.Error("ready without a configuration, before boot_wait has passed")
	}
	if out := p.Enforcer.Decide(&limiter.Request{Tenant: "acme", Pool: "api", Cost: 1}); out.Verdict != limiter.Admit {
		t.Errorf("before the first configuration: %+v", out)
	}
	if status, body := p.Page("/titrate"); status != http.StatusOK ||
		!strings.Contains(string(body), `gateway "gw-1"`) {
		t.Errorf("the page: %d %s", status, body)
	}
	p.Publish()
	if r.gauges[stats.Goroutines] == 0 || r.gauges[stats.LinkConnected] != 0 {
		t.Errorf("published %v", r.gauges)
	}
	if p.Stop() {
		t.Error("in flight, though no request has waited")
	}
	p.End()
	p.End()
	if n := p.Enforcer.Panics(); n != 0 {
		t.Errorf("%d panics; log:\n%s", n, r.written())
	}
}

func TestReadyAfterBootWait(t *testing.T) {
	p, r := newProcess(t, time.Nanosecond)
	p.Start()
	defer func() { p.Stop(); p.End() }()
	if !p.Ready() || !strings.Contains(r.written(), "no configuration within boot_wait") {
		t.Errorf("not ready after boot_wait, or nothing logged:\n%s", r.written())
	}
}

// Envoy may give up while it starts: then nothing has run.
func TestEndWithoutStart(t *testing.T) {
	p, _ := newProcess(t, 0)
	if p.Stop() {
		t.Error("in flight, though nothing ran")
	}
	p.End()
}

func TestAlarm(t *testing.T) {
	var a alarm
	minute := int64(time.Minute)
	for _, c := range []struct {
		parted uint64
		at     int64
		warns  string
	}{{0, 1, ""}, {5, 1, "5 requests more"}, {9, minute, ""}, {9, 2 * minute, "4 requests more"}, {9, 9 * minute, ""}} {
		if text := a.check(c.parted, c.at); (text != "") != (c.warns != "") || !strings.Contains(text, c.warns) {
			t.Errorf("%d at %v: %q, want %q", c.parted, time.Duration(c.at), text, c.warns)
		}
	}
}
