package telemetry

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Change is one change of the configuration. Its trace has an ID that follows from the two
// numbers, so that each process adds its spans to one trace without being sent it.
type Change struct {
	Seed     uint64 // of key hashes, one per cluster
	Revision int64
}

// root is the span that all others of the change are children of.
func (c Change) root() trace.SpanContext {
	text := binary.BigEndian.AppendUint64([]byte("titrate change"), c.Seed)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(text, uint64(c.Revision)))
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID(sum[:16]),
		SpanID: trace.SpanID(sum[16:24]), TraceFlags: trace.FlagsSampled, Remote: true})
}

// Traces sends spans of changes to an OTLP receiver. Nil sends nothing. Safe for concurrent use.
type Traces struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// OpenTraces makes the sender; nil if no receiver is configured, or the environment switches
// traces off. It does not wait for the receiver.
func (m Meters) OpenTraces(ctx context.Context, metrics *Metrics) (*Traces, error) {
	if m.receiver("TRACES") == "" || !wanted("TRACES") {
		return nil, nil
	}
	var options []otlptracegrpc.Option
	if m.Endpoint != "" {
		options = append(options, otlptracegrpc.WithEndpointURL(m.Endpoint))
	}
	exporter, err := otlptracegrpc.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("OTLP exporter of traces for %q: %w", m.Endpoint, err)
	}
	count, err := metrics.underway("titrate_spans_lost", "Spans")
	if err != nil {
		return nil, err
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(count.batchedSpans(exporter)),
		sdktrace.WithResource(m.resource()), sdktrace.WithIDGenerator(spanIDs{}))
	return &Traces{provider: provider, tracer: provider.Tracer("github.com/titrate/titrate/services")}, nil
}

// wanted reports that the environment does not switch TRACES or LOGS off.
func wanted(of string) bool {
	exporter := os.Getenv("OTEL_" + of + "_EXPORTER")
	return !strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") && (exporter == "" || exporter == "otlp")
}

// Stored is the first span of a change: how it was stored.
func (t *Traces) Stored(c Change, began, stored time.Time, attributes ...attribute.KeyValue) {
	t.span(context.WithValue(context.Background(), rootKey{}, c.root()), c, "store change", began, stored, attributes)
}

// Step is a later one, of what was done because of the change.
func (t *Traces) Step(c Change, name string, began, ended time.Time, attributes ...attribute.KeyValue) {
	if t != nil {
		t.span(trace.ContextWithRemoteSpanContext(context.Background(), c.root()), c, name, began, ended, attributes)
	}
}

func (t *Traces) span(ctx context.Context, c Change, name string, began, ended time.Time,
	attributes []attribute.KeyValue) {
	if t == nil {
		return
	}
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(began),
		trace.WithAttributes(append(attributes, attribute.Int64("titrate.revision", c.Revision))...))
	span.End(trace.WithTimestamp(ended))
}

// Close sends what is left and stops; ctx bounds how long that may take.
func (t *Traces) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return stop(ctx, "traces", t.provider)
}

// rootKey is the key of the span context for a first span.
type rootKey struct{}

// spanIDs gives the first span of a change its ID, and all others random ones.
type spanIDs struct{}

// NewIDs implements sdktrace.IDGenerator: for a span without a parent.
func (s spanIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if root, ok := ctx.Value(rootKey{}).(trace.SpanContext); ok {
		return root.TraceID(), root.SpanID()
	}
	var id trace.TraceID
	binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(id[8:], rand.Uint64()|1)
	return id, s.NewSpanID(ctx, id)
}

// NewSpanID implements sdktrace.IDGenerator.
func (spanIDs) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	binary.NativeEndian.PutUint64(id[:], rand.Uint64()|1) // 0 is no ID
	return id
}
