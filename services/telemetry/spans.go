package telemetry

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// mostSpans are on their way, some 1 KB each. More cost memory while the receiver is away.
	mostSpans = 2048
	// spanBatch is the most that one call sends, and sendSpansEvery how long the first of them
	// waits at most.
	spanBatch      = 512
	sendSpansEvery = time.Second
	// spanTimeout is how long a call may take, with the exporter's tries.
	spanTimeout = 10 * time.Second
)

// underway bounds what is on its way to a receiver and counts what is lost, which the batch
// processors of the SDK do not.
type underway struct {
	most    int64
	waiting atomic.Int64
	lost    atomic.Uint64
}

// enter makes room for one; false: it is lost.
func (u *underway) enter() bool {
	if u.waiting.Add(1) <= u.most {
		return true
	}
	u.waiting.Add(-1)
	u.lost.Add(1)
	return false
}

// left says that so many were sent, or refused by the receiver.
func (u *underway) left(n int, err error) {
	if err != nil {
		u.lost.Add(uint64(n))
	}
	u.waiting.Add(-int64(n))
}

// register adds the counter of what is lost.
func (u *underway) register(to *Metrics, name, description string) error {
	_, err := to.Meter("github.com/titrate/titrate/services/telemetry").Int64ObservableCounter(name,
		metric.WithInt64Callback(func(_ context.Context, to metric.Int64Observer) error {
			to.Observe(int64(u.lost.Load()))
			return nil
		}), metric.WithDescription(description))
	return err
}

// batchedSpans sends spans in batches. Nobody ever waits for the receiver: a span that finds the queue
// full is lost.
func (u *underway) batchedSpans(to sdktrace.SpanExporter) sdktrace.SpanProcessor {
	return countedProcessor{sdktrace.NewBatchSpanProcessor(countedExporter{to, u},
		sdktrace.WithMaxQueueSize(mostSpans), sdktrace.WithMaxExportBatchSize(spanBatch),
		sdktrace.WithBatchTimeout(sendSpansEvery), sdktrace.WithExportTimeout(spanTimeout)), u}
}

// countedProcessor lets no more spans into the queue than it has room for.
type countedProcessor struct {
	sdktrace.SpanProcessor
	*underway
}

// OnEnd is that of sdktrace.SpanProcessor.
func (p countedProcessor) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.SpanContext().IsSampled() && p.enter() {
		p.SpanProcessor.OnEnd(s)
	}
}

// countedExporter counts what the receiver does not take.
type countedExporter struct {
	sdktrace.SpanExporter
	*underway
}

// ExportSpans is that of sdktrace.SpanExporter. It never fails: the SDK would write its error among
// the lines of the log.
func (e countedExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.left(len(spans), e.SpanExporter.ExportSpans(ctx, spans))
	return nil
}
