package agent

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
	"github.com/titrate/titrate/services/agent/activity"
	"github.com/titrate/titrate/services/telemetry"
)

const (
	waitsName = "titrate.agent.wait"
	waitsHelp = "Time for which requests were held, by outcome: admitted, refused; limit is the longer wait: " +
		"a limit or tenant-share. The first 100 combinations have series, all others are tenant _other. A sample " +
		"above 130 a second. Only once a request was held."
)

var waitsLabels = []string{"gateway", "tenant", "pool", "limit", "outcome"}

// waits are the histograms of how long requests were held, of which there are activity.MaxSeries pairs at
// most, and one pair for all others. Safe for concurrent use.
type waits struct {
	histogram metric.Float64Histogram

	mu     sync.Mutex
	series map[waitsOf]*[2]metric.MeasurementOption // admitted, refused
	others [2]metric.MeasurementOption
}

// waitsOf has the labels of a series.
type waitsOf struct{ gateway, tenant, pool, limit string }

func newWaits(meter metric.Meter) (*waits, error) {
	h, err := meter.Float64Histogram(waitsName, metric.WithUnit("s"), metric.WithDescription(waitsHelp),
		metric.WithExplicitBucketBoundaries(.005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60))
	return &waits{histogram: h, series: map[waitsOf]*[2]metric.MeasurementOption{},
		others: waitsOf{tenant: activity.Other}.attributes()}, err
}

// describeWaits describes the histogram, as Prometheus names it.
func describeWaits() telemetry.Description {
	return telemetry.Describe(waitsName, telemetry.Histogram, "s", waitsHelp, waitsLabels...)
}

// heard counts the waits in a gateway's report of single requests. configured returns the configured names for a
// tenant's and a pool's: clients choose names, and are not to use up the series.
func (w *waits) heard(gateway string, m link.Message, configured func(tenant, pool string) (string, string)) {
	told, is := m.(*exchange.Decisions)
	if !is {
		return
	}
	for i := range told.List {
		if d := &told.List[i]; d.Waited > 0 {
			outcome := 0
			if d.Refused {
				outcome = 1
			}
			tenant, pool := configured(d.Tenant, d.Pool)
			of := w.of(waitsOf{gateway, tenant, pool, d.HeldBy})
			w.histogram.Record(context.Background(), d.Waited.Seconds(), of[outcome])
		}
	}
}

// of finds the series, or makes it if there is room.
func (w *waits) of(name waitsOf) *[2]metric.MeasurementOption {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.series[name]
	if s == nil {
		if len(w.series) == activity.MaxSeries {
			return &w.others
		}
		made := name.attributes()
		s = &made
		w.series[name] = s
	}
	return s
}

func (of waitsOf) attributes() (out [2]metric.MeasurementOption) {
	for i, outcome := range []string{"admitted", "refused"} {
		out[i] = metric.WithAttributeSet(attribute.NewSet(attribute.String("gateway", of.gateway),
			attribute.String("tenant", of.tenant), attribute.String("pool", of.pool),
			attribute.String("limit", of.limit), attribute.String("outcome", outcome)))
	}
	return out
}
