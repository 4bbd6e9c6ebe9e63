package telemetry

import (
	"context"
	"sync/atomic"
	"time"

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

// spanCount bounds the spans that are on their way and counts those that are lost, which the batch
// processor of the SDK does not.
type spanCount struct {
	waiting atomic.Int64
	lost    atomic.Uint64
}

// batched sends spans in batches. Nobody ever waits for the receiver: a span that finds the queue
// full is lost.
func (c *spanCount) batched(to sdktrace.SpanExporter) sdktrace.SpanProcessor {
	return countedProcessor{sdktrace.NewBatchSpanProcessor(countedExporter{to, c},
		sdktrace.WithMaxQueueSize(mostSpans), sdktrace.WithMaxExportBatchSize(spanBatch),
		sdktrace.WithBatchTimeout(sendSpansEvery), sdktrace.WithExportTimeout(spanTimeout)), c}
}

// countedProcessor lets no more spans into the queue than it has room for.
type countedProcessor struct {
	sdktrace.SpanProcessor
	*spanCount
}

// OnEnd is that of sdktrace.SpanProcessor.
func (p countedProcessor) OnEnd(s sdktrace.ReadOnlySpan) {
	switch {
	case !s.SpanContext().IsSampled():
	case p.waiting.Add(1) > mostSpans:
		p.waiting.Add(-1)
		p.lost.Add(1)
	default:
		p.SpanProcessor.OnEnd(s)
	}
}

// countedExporter counts what the receiver does not take.
type countedExporter struct {
	sdktrace.SpanExporter
	*spanCount
}

// ExportSpans is that of sdktrace.SpanExporter. It never fails: the SDK would write its error among
// the lines of the log.
func (e countedExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.lost.Add(uint64(len(spans)))
	}
	e.waiting.Add(-int64(len(spans)))
	return nil
}
