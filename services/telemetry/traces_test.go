package telemetry_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/titrate/titrate/services/telemetry"
)

// receiver is an OTLP receiver that keeps the spans.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	mu       sync.Mutex
	spans    []*tracev1.Span
	services []string
}

func (r *receiver) Export(_ context.Context, m *collector.ExportTraceServiceRequest) (
	*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range m.ResourceSpans {
		for _, a := range of.Resource.Attributes {
			if a.Key == "service.name" {
				r.services = append(r.services, a.Value.GetStringValue())
			}
		}
		for _, s := range of.ScopeSpans {
			r.spans = append(r.spans, s.Spans...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func receive(t *testing.T) (*receiver, string) {
	t.Helper()
	r, s := &receiver{}, grpc.NewServer()
	collector.RegisterTraceServiceServer(s, r)
	return r, serve(t, s)
}

// serve starts an OTLP receiver and returns its URL.
func serve(t *testing.T, s *grpc.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return "http://" + l.Addr().String()
}

// silent is the URL of a receiver that accepts, and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return "http://" + l.Addr().String()
}

// someLost fails unless a counter says that something was lost.
func someLost(t *testing.T, metrics *telemetry.Metrics, counter string) {
	t.Helper()
	a, err := telemetry.NewAdmin(metrics, telemetry.Security{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, page := get(a, "/metrics")
	_, lost, found := strings.Cut(page, "\n"+counter+" ")
	if !found || strings.HasPrefix(lost, "0\n") {
		t.Errorf("%s counts none:\n%s", counter, page)
	}
}

func openTraces(t *testing.T, service, endpoint string) (*telemetry.Traces, *telemetry.Metrics) {
	t.Helper()
	m := telemetry.Meters{Service: service, Instance: "one"}
	metrics, err := m.Open(t.Context()) // without an endpoint: no push
	if err != nil {
		t.Fatal(err)
	}
	m.Endpoint = endpoint
	traces, err := m.OpenTraces(t.Context(), metrics)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { metrics.Close(context.Background()) })
	return traces, metrics
}

// Two processes that send each other nothing make one trace of a change: the first span is the parent of all others.
// Another change, or that of another cluster, has another trace.
func TestOneTraceOfAChange(t *testing.T) {
	r, endpoint := receive(t)
	coordinator, _ := openTraces(t, "titrate-coordinator", endpoint)
	agent, _ := openTraces(t, "titrate-agent", endpoint)
	now := time.Now()
	change := telemetry.Change{Seed: 5, Revision: 12}
	agent.Step(change, "agent puts change in force", now.Add(time.Second), now.Add(2*time.Second))
	coordinator.Stored(change, now, now.Add(time.Second))
	agent.Step(telemetry.Change{Seed: 5, Revision: 13}, "other", now, now)
	agent.Step(telemetry.Change{Seed: 6, Revision: 12}, "other", now, now)
	for _, one := range []*telemetry.Traces{coordinator, agent} {
		if err := one.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	named := map[string]*tracev1.Span{}
	traces := map[string]bool{}
	for _, s := range r.spans {
		named[s.Name] = s
		traces[string(s.TraceId)] = true
	}
	first, step := named["store change"], named["agent puts change in force"]
	if len(r.spans) != 4 || len(traces) != 3 || len(r.services) != 2 {
		t.Fatalf("%d spans of %d traces by %v", len(r.spans), len(traces), r.services)
	}
	if string(first.TraceId) != string(step.TraceId) || len(first.ParentSpanId) != 0 ||
		string(step.ParentSpanId) != string(first.SpanId) ||
		first.EndTimeUnixNano-first.StartTimeUnixNano != uint64(time.Second) ||
		first.Attributes[0].Key != "titrate.revision" || first.Attributes[0].Value.GetIntValue() != 12 {
		t.Errorf("%v\n%v", first, step)
	}
}

// A receiver that does not answer holds nobody up: spans are dropped and counted, and the end of the process waits no
// longer than its bound.
func TestADeadReceiverHoldsNobodyUp(t *testing.T) {
	traces, metrics := openTraces(t, "titrate-agent", silent(t))
	for i := range 10_000 {
		traces.Step(telemetry.Change{Seed: 1, Revision: int64(i + 1)}, "step", time.Now(), time.Now())
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = traces.Close(ended)
	someLost(t, metrics, "titrate_spans_lost_total")
}

// Without a receiver, and where the environment switches traces off, there are none; what would
// send them does nothing.
func TestTracesOff(t *testing.T) {
	for _, c := range []struct{ endpoint, name, value string }{
		{"", "OTEL_SDK_DISABLED", ""},
		{"http://127.0.0.1:4317", "OTEL_SDK_DISABLED", "true"},
		{"http://127.0.0.1:4317", "OTEL_TRACES_EXPORTER", "none"},
	} {
		t.Run(c.endpoint+c.name, func(t *testing.T) {
			t.Setenv(c.name, c.value)
			traces, _ := openTraces(t, "titrate-agent", c.endpoint)
			if traces != nil {
				t.Error("traces are on")
			}
			traces.Stored(telemetry.Change{}, time.Now(), time.Now())
			traces.Step(telemetry.Change{}, "step", time.Now(), time.Now())
			if err := traces.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4317")
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	if traces, _ := openTraces(t, "titrate-agent", ""); traces == nil {
		t.Error("the environment names a receiver, and traces are off")
	}
}
