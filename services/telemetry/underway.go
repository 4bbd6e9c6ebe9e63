package telemetry

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// mostUnderway spans, or records of the log, are on their way, some 1 KB each. More cost memory
	// while the receiver is away.
	mostUnderway = 2048
	// mostAtOnce is the most that one call sends, and sendEvery how long the first of them waits at most.
	mostAtOnce = 512
	sendEvery  = time.Second
	// sendTimeout bounds the time for a call, with the exporter's tries.
	sendTimeout = 10 * time.Second
)

// underway bounds what is on its way to a receiver and counts what is lost, which the batch
// processors of the SDK do not.
type underway struct {
	waiting atomic.Int64
	lost    atomic.Uint64
}

// enter makes room for one; false: it is lost.
func (u *underway) enter() bool {
	if u.waiting.Add(1) <= mostUnderway {
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

// underway makes the bound of what, with a counter of the lost ones.
func (m *Metrics) underway(counter, what string) (*underway, error) {
	u := &underway{}
	_, err := m.Meter("github.com/titrate/titrate/services/telemetry").Int64ObservableCounter(counter,
		metric.WithInt64Callback(func(_ context.Context, to metric.Int64Observer) error {
			to.Observe(int64(u.lost.Load()))
			return nil
		}), metric.WithDescription(what+
			" that the OTLP receiver did not get: the queue was full, or it did not take them"))
	return u, err
}

// stop sends what is left and stops; that there was no time to send all of it is no error.
func stop(ctx context.Context, what string, provider interface{ Shutdown(context.Context) error }) error {
	if err := provider.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stop %s: %w", what, err)
	}
	return nil
}

// batchedSpans sends spans in batches. Nobody ever waits for the receiver: a span that finds the queue full is lost.
func (u *underway) batchedSpans(to sdktrace.SpanExporter) sdktrace.SpanProcessor {
	return countedProcessor{sdktrace.NewBatchSpanProcessor(countedExporter{to, u},
		sdktrace.WithMaxQueueSize(mostUnderway), sdktrace.WithMaxExportBatchSize(mostAtOnce),
		sdktrace.WithBatchTimeout(sendEvery), sdktrace.WithExportTimeout(sendTimeout)), u}
}

// countedProcessor lets no more spans into the queue than it has room for.
type countedProcessor struct {
	sdktrace.SpanProcessor
	*underway
}

// OnEnd implements sdktrace.SpanProcessor.
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

// ExportSpans implements sdktrace.SpanExporter. It never fails: the SDK would write its error among the lines of the
// log.
func (e countedExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.left(len(spans), e.SpanExporter.ExportSpans(ctx, spans))
	return nil
}
