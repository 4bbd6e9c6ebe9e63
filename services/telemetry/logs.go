package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	sdklog "go.opentelemetry.io/otel/sdk/log"
)

// Logs sends the records of a log to an OTLP receiver. Nil sends nothing. Safe for concurrent use.
type Logs struct{ provider *sdklog.LoggerProvider }

// OpenLogs returns a log whose records go to an OTLP receiver, too: the log itself and nil if no receiver is
// configured, or the environment switches records off. It does not wait for the receiver, nor does who logs.
func (m Meters) OpenLogs(ctx context.Context, log *slog.Logger, metrics *Metrics) (*slog.Logger, *Logs, error) {
	if m.receiver("LOGS") == "" || !wanted("LOGS") {
		return log, nil, nil
	}
	var options []otlploggrpc.Option
	if m.Endpoint != "" {
		options = append(options, otlploggrpc.WithEndpointURL(m.Endpoint))
	}
	exporter, err := otlploggrpc.New(ctx, options...)
	if err != nil {
		return log, nil, fmt.Errorf("OTLP exporter of logs for %q: %w", m.Endpoint, err)
	}
	count, err := metrics.underway("titrate_log_records_lost", "Records of the log")
	if err != nil {
		return log, nil, err
	}
	provider := sdklog.NewLoggerProvider(sdklog.WithResource(m.resource()),
		sdklog.WithProcessor(count.batchedRecords(exporter)))
	sender := otelslog.NewHandler("github.com/titrate/titrate/services", otelslog.WithLoggerProvider(provider))
	return slog.New(beside{log.Handler(), sender}), &Logs{provider}, nil
}

// Close sends what is left and stops; ctx bounds how long that may take.
func (l *Logs) Close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	return stop(ctx, "logs", l.provider)
}

// batchedRecords sends records in batches. Nobody ever waits for the receiver: a record that finds
// the queue full is lost.
func (u *underway) batchedRecords(to sdklog.Exporter) sdklog.Processor {
	return recordProcessor{sdklog.NewBatchProcessor(recordExporter{to, u}, sdklog.WithMaxQueueSize(mostUnderway),
		sdklog.WithExportMaxBatchSize(mostAtOnce), sdklog.WithExportInterval(sendEvery),
		sdklog.WithExportTimeout(sendTimeout)), u}
}

// recordProcessor lets no more records into the queue than it has room for.
type recordProcessor struct {
	sdklog.Processor
	*underway
}

// OnEmit implements sdklog.Processor.
func (p recordProcessor) OnEmit(ctx context.Context, r *sdklog.Record) error {
	if p.enter() {
		return p.Processor.OnEmit(ctx, r)
	}
	return nil
}

// recordExporter counts what the receiver does not take.
type recordExporter struct {
	sdklog.Exporter
	*underway
}

// Export implements sdklog.Exporter. It never fails: the SDK would write its error among the lines of the log.
func (e recordExporter) Export(ctx context.Context, records []sdklog.Record) error {
	e.left(len(records), e.Exporter.Export(ctx, records))
	return nil
}

// beside is a log whose records a sender has, too, at the log's level.
type beside struct {
	slog.Handler
	sender slog.Handler
}

// Handle implements slog.Handler.
func (b beside) Handle(ctx context.Context, r slog.Record) error {
	return errors.Join(b.Handler.Handle(ctx, r.Clone()), b.sender.Handle(ctx, r))
}

// WithAttrs implements slog.Handler.
func (b beside) WithAttrs(all []slog.Attr) slog.Handler {
	return beside{b.Handler.WithAttrs(all), b.sender.WithAttrs(all)}
}

// WithGroup implements slog.Handler.
func (b beside) WithGroup(name string) slog.Handler {
	return beside{b.Handler.WithGroup(name), b.sender.WithGroup(name)}
}
