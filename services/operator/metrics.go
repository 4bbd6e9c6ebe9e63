package operator

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/titrate/titrate/services/telemetry"
)

// instruments are the operator's metrics.
var instruments = []struct {
	name, help string
	counter    bool
	labels     []string
	read       func(o *Operator, put func(int64, ...attribute.KeyValue))
}{
	{name: "titrate_operator_leading", help: "1 while this operator leads.",
		read: func(o *Operator, put func(int64, ...attribute.KeyValue)) {
			held := int64(0)
			if o.leading.Load() {
				held = 1
			}
			put(held)
		}},
	{name: "titrate_operator_objects", labels: []string{"reason"},
		help: "Custom resources by the reason in their condition InForce, as the last pass found them.",
		read: func(o *Operator, put func(int64, ...attribute.KeyValue)) {
			o.mu.Lock()
			defer o.mu.Unlock()
			for _, reason := range Reasons {
				put(int64(o.objects[reason]), attribute.String("reason", reason))
			}
		}},
	{name: "titrate_operator_passes", counter: true, help: "Passes over all custom resources.",
		read: func(o *Operator, put func(int64, ...attribute.KeyValue)) { put(int64(o.passes.Load())) }},
	{name: "titrate_operator_failures", counter: true,
		help: "Passes, and attempts to lead, that failed because the API server or the coordinator could not be asked.",
		read: func(o *Operator, put func(int64, ...attribute.KeyValue)) { put(int64(o.failures.Load())) }},
}

// Metrics describes the operator's metrics, as Prometheus names them.
func Metrics() []telemetry.Description {
	var out []telemetry.Description
	for _, i := range instruments {
		kind := telemetry.Gauge
		if i.counter {
			kind = telemetry.Counter
		}
		out = append(out, telemetry.Describe(i.name, kind, "", i.help, i.labels...))
	}
	return out
}

// Register registers the operator's metrics.
func (o *Operator) Register(metrics *telemetry.Metrics) error {
	meter := metrics.Meter("github.com/titrate/titrate/services/operator")
	var errs []error
	for _, i := range instruments {
		observe := metric.WithInt64Callback(func(_ context.Context, to metric.Int64Observer) error {
			i.read(o, func(v int64, labels ...attribute.KeyValue) { to.Observe(v, metric.WithAttributes(labels...)) })
			return nil
		})
		var err error
		if i.counter {
			_, err = meter.Int64ObservableCounter(i.name, metric.WithDescription(i.help), observe)
		} else {
			_, err = meter.Int64ObservableGauge(i.name, metric.WithDescription(i.help), observe)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
