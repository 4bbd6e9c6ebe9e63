package process

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// receiver is an OTLP receiver that keeps the spans of coordinators, agents and Envoys.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	endpoint string
	mu       sync.Mutex
	spans    []*tracev1.Span
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r, s := &receiver{endpoint: "http://" + l.Addr().String()}, grpc.NewServer()
	collector.RegisterTraceServiceServer(s, r)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return r
}

// Export keeps the spans.
func (r *receiver) Export(_ context.Context, m *collector.ExportTraceServiceRequest) (
	*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range m.ResourceSpans {
		for _, s := range of.ScopeSpans {
			r.spans = append(r.spans, s.Spans...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// trace is the names of the spans of a revision's trace, sorted, and of how many traces they are.
func (r *receiver) trace(revision int64) (names []string, traces int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := map[string]bool{}
	for _, s := range r.spans {
		for _, a := range s.Attributes {
			if a.Key == "titrate.revision" && a.Value.GetIntValue() == revision {
				names = append(names, s.Name)
				ids[string(s.TraceId)] = true
			}
		}
	}
	slices.Sort(names)
	return names, len(ids)
}

// traceOfAChange follows one apply from etcd to the gateways.
func (w *system) traceOfAChange(t *testing.T) {
	w.apply(`{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/traced, spec: {weight: 2}}`)
	w.inForce(t, patience)
	want := []string{"agent puts change in force", "agent puts change in force", "coordinator reads change",
		"first leases with change", "first leases with change", "first round with change", "gateway puts change in force",
		"gateway puts change in force", "store change"}
	eventually(t, "one trace of the change", patience, func() string {
		names, traces := w.receiver.trace(int64(w.revision))
		if !slices.Equal(names, want) || traces != 1 {
			return fmt.Sprintf("%d traces with %q, want one with %q", traces, names, want)
		}
		return ""
	})
}
