package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
)

// Meters says where a process's metrics go. Prometheus always may scrape them.
type Meters struct {
	Service  string // service.name, such as titrate-agent
	Instance string // service.instance.id: the process's unique name
	Version  string // service.version
	// Endpoint is a URL of an OTLP gRPC receiver, such as http://otel:4317; the scheme says whether TLS is used. Empty
	// = OTEL_EXPORTER_OTLP_ENDPOINT, and without that no push.
	Endpoint string
	// Log gets a line when the receiver stops taking metrics, and when it takes them again. Nil: it is not logged.
	Log *slog.Logger
}

// Flags adds --otlp-endpoint.
func (m *Meters) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&m.Endpoint, "otlp-endpoint", "",
		"URL of an OTLP gRPC receiver that metrics, traces and logs are pushed to, such as http://127.0.0.1:4317 "+
			"(default: $OTEL_EXPORTER_OTLP_ENDPOINT, or no push)")
}

// Metrics is a process's meter provider. Safe for concurrent use.
type Metrics struct {
	provider *sdk.MeterProvider
	registry *prometheus.Registry
}

// Open makes the provider. It does not wait for the OTLP receiver: an absent one
// costs a line in the log, never a start.
func (m Meters) Open(ctx context.Context) (*Metrics, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("prometheus exporter: %w", err)
	}
	options := []sdk.Option{sdk.WithReader(exporter), sdk.WithResource(m.resource())}
	if push, err := m.push(ctx); err != nil {
		return nil, err
	} else if push != nil {
		options = append(options, sdk.WithReader(sdk.NewPeriodicReader(push)))
	}
	return &Metrics{provider: sdk.NewMeterProvider(options...), registry: registry}, nil
}

// push is the OTLP exporter, nil if none is configured.
func (m Meters) push(ctx context.Context) (sdk.Exporter, error) {
	to := m.receiver("METRICS")
	if to == "" {
		return nil, nil
	}
	var options []otlpmetricgrpc.Option
	if m.Endpoint != "" {
		options = append(options, otlpmetricgrpc.WithEndpointURL(m.Endpoint))
	}
	exporter, err := otlpmetricgrpc.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("OTLP exporter for %q: %w", m.Endpoint, err)
	}
	return &metricExporter{Exporter: exporter, log: m.Log, to: to}, nil
}

// receiver returns the address to which METRICS, TRACES or LOGS are pushed, empty if nowhere. Without an Endpoint the
// exporter reads the standard variables itself, with the other OTEL_EXPORTER_OTLP_* settings.
func (m Meters) receiver(of string) string {
	return cmp.Or(m.Endpoint, os.Getenv("OTEL_EXPORTER_OTLP_"+of+"_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
}

// metricExporter logs when the receiver stops taking metrics, and when it takes them again.
type metricExporter struct {
	sdk.Exporter
	log  *slog.Logger // nil: nothing is logged
	to   string
	dead bool // only the reader's goroutine exports
}

// Export implements sdk.Exporter. It never fails: the SDK would write its error among the lines of the log, each time
// and in another format.
func (e *metricExporter) Export(ctx context.Context, all *metricdata.ResourceMetrics) error {
	err := e.Exporter.Export(ctx, all)
	dead := err != nil
	if e.log != nil && dead && !e.dead {
		e.log.Warn("metrics are not pushed: the OTLP receiver does not take them. All else goes on, and each push "+
			"tries again: is it running, and is --otlp-endpoint its gRPC port?", "endpoint", e.to, "error", err)
	}
	if e.log != nil && !dead && e.dead {
		e.log.Info("metrics are pushed again", "endpoint", e.to)
	}
	e.dead = dead
	return nil
}

// resource describes the sender. OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME come first.
func (m Meters) resource() *resource.Resource {
	own := resource.NewSchemaless(
		attribute.String("service.name", m.Service),
		attribute.String("service.instance.id", m.Instance),
		attribute.String("service.version", m.Version),
	)
	if merged, err := resource.Merge(own, resource.Environment()); err == nil {
		return merged
	}
	return own
}

// Meter makes instruments for one package, named by its import path.
func (m *Metrics) Meter(name string) metric.Meter { return m.provider.Meter(name) }

// files registers the metrics of TLS files, with the attribute files.
func (m *Metrics) files(name string, s Security) error {
	meter := m.Meter("github.com/titrate/titrate/services/telemetry")
	trouble, err := meter.Int64ObservableGauge("titrate_tls_trouble", metric.WithDescription(
		"1 while the TLS files cannot be read, do not fit each other or have expired; what was read before stays in "+
			"use"))
	expires, err2 := meter.Float64ObservableGauge("titrate_tls_expires_timestamp_seconds", metric.WithDescription(
		"When the first certificate in the TLS files expires, seconds since 1970"))
	lifetime, err3 := meter.Float64ObservableGauge("titrate_tls_lifetime_seconds", metric.WithDescription(
		"For how long that certificate is good, from its beginning to its end"))
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	in := metric.WithAttributes(attribute.String("files", name))
	_, err = meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		var bad int64
		if s.Trouble() != nil {
			bad = 1
		}
		to.ObserveInt64(trouble, bad, in)
		if v, err := s.Validity(); err == nil && v.File != "" {
			to.ObserveFloat64(expires, float64(v.Until.Unix()), in)
			to.ObserveFloat64(lifetime, v.Until.Sub(v.From).Seconds(), in)
		}
		return nil
	}, trouble, expires, lifetime)
	return err
}

// Provider is the provider itself, for instrumentation libraries.
func (m *Metrics) Provider() metric.MeterProvider { return m.provider }

// Handler answers a Prometheus scrape.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// Close pushes what is left and stops; ctx bounds how long that may take.
func (m *Metrics) Close(ctx context.Context) error {
	if err := m.provider.Shutdown(ctx); err != nil && !errors.Is(err, sdk.ErrReaderShutdown) {
		return fmt.Errorf("stop metrics: %w", err)
	}
	return nil
}
