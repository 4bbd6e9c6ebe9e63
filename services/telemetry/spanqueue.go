package telemetry

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// mostSpans wait to be sent, some 1 KB each. More cost memory while the receiver is away.
	mostSpans = 2048
	// spanBatch is the most that one call sends, and sendSpansEvery how long the first of them
	// waits at most.
	spanBatch      = 512
	sendSpansEvery = time.Second
	// spanTimeout is how long a call may take, with the exporter's tries.
	spanTimeout = 10 * time.Second
)

// spanQueue sends spans in batches, and drops those that find it full: nobody ever waits for the
// receiver. It counts what it drops, which the batch processor of the SDK does not.
type spanQueue struct {
	exporter sdktrace.SpanExporter
	spans    chan sdktrace.ReadOnlySpan
	lost     atomic.Uint64
	stop     chan struct{}
	stopOnce sync.Once
	done     chan struct{}
}

func newSpanQueue(e sdktrace.SpanExporter) *spanQueue {
	q := &spanQueue{exporter: e, spans: make(chan sdktrace.ReadOnlySpan, mostSpans), stop: make(chan struct{}),
		done: make(chan struct{})}
	go q.run()
	return q
}

// OnStart is that of sdktrace.SpanProcessor.
func (q *spanQueue) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd is that of sdktrace.SpanProcessor.
func (q *spanQueue) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	select {
	case q.spans <- s:
	default:
		q.lost.Add(1)
	}
}

// ForceFlush is that of sdktrace.SpanProcessor. Shutdown sends what is left.
func (q *spanQueue) ForceFlush(context.Context) error { return nil }

// Shutdown sends what is left.
func (q *spanQueue) Shutdown(ctx context.Context) error {
	q.stopOnce.Do(func() { close(q.stop) })
	select {
	case <-q.done:
	case <-ctx.Done():
	}
	return q.exporter.Shutdown(ctx)
}

func (q *spanQueue) run() {
	defer close(q.done)
	ticker := time.NewTicker(sendSpansEvery)
	defer ticker.Stop()
	for stopping := false; !stopping; {
		select {
		case <-q.stop:
			stopping = true
		case <-ticker.C:
		}
		for q.send() {
		}
	}
}

// send sends a batch; false: nothing is left, or the receiver does not take it.
func (q *spanQueue) send() bool {
	var batch []sdktrace.ReadOnlySpan
	for len(batch) < min(spanBatch, len(q.spans)+len(batch)) {
		batch = append(batch, <-q.spans)
	}
	if len(batch) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), spanTimeout)
	defer cancel()
	if err := q.exporter.ExportSpans(ctx, batch); err != nil {
		q.lost.Add(uint64(len(batch)))
		return false
	}
	return true
}
