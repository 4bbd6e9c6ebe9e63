package telemetry

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Put reports one value of a metric, with its attributes.
type Put func(value float64, by ...attribute.KeyValue)

// Instrument is a metric of a process that is read at each scrape. M has the values of all metrics, read at
// once. The exporter for Prometheus adds the unit and _total to the name.
type Instrument[M any] struct {
	Name, Unit, Help string
	Counter          bool // it only rises; otherwise it is a gauge
	Labels           []string
	Read             func(M, Put)
}

// One reads a metric that has one value, without attributes.
func One[M any, N ~int | ~int64 | ~uint64 | ~float64](read func(M) N) func(M, Put) {
	return func(m M, put Put) { put(float64(read(m))) }
}

// Is reads a metric that is 1 while something holds, and 0 otherwise.
func Is[M any](read func(M) bool) func(M, Put) {
	return func(m M, put Put) { put(Truth(read(m))) }
}

// Truth is 1 for what holds, and 0 otherwise.
func Truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// DescribeAll describes the metrics of a table.
func DescribeAll[M any](table []Instrument[M]) (all []Description) {
	for _, i := range table {
		kind := Gauge
		if i.Counter {
			kind = Counter
		}
		all = append(all, Describe(i.Name, kind, i.Unit, i.Help, i.Labels...))
	}
	return all
}

// RegisterAll registers the metrics of a table. read is called once for each scrape.
func RegisterAll[M any](meter metric.Meter, table []Instrument[M], read func() M) (err error) {
	values := make([]metric.Float64Observable, len(table))
	observables := make([]metric.Observable, len(table))
	for n, i := range table {
		if i.Counter {
			values[n], err = meter.Float64ObservableCounter(i.Name, metric.WithDescription(i.Help),
				metric.WithUnit(i.Unit))
		} else {
			values[n], err = meter.Float64ObservableGauge(i.Name, metric.WithDescription(i.Help),
				metric.WithUnit(i.Unit))
		}
		if err != nil {
			return fmt.Errorf("metric %s: %w", i.Name, err)
		}
		observables[n] = values[n]
	}
	_, err = meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		now := read()
		for n, i := range table {
			i.Read(now, func(value float64, by ...attribute.KeyValue) {
				to.ObserveFloat64(values[n], value, metric.WithAttributes(by...))
			})
		}
		return nil
	}, observables...)
	return err
}
