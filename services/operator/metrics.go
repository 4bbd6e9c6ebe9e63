package operator

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/titrate/titrate/services/telemetry"
)

// table has the operator's metrics.
var table = []telemetry.Instrument[*Operator]{
	{Name: "titrate_operator_leading", Help: "1 while this operator leads.",
		Read: telemetry.Is(func(o *Operator) bool { return o.leading.Load() })},
	{Name: "titrate_operator_objects", Labels: []string{"reason"},
		Help: "Custom resources by the reason in their condition InForce, as the last pass found them.",
		Read: func(o *Operator, put telemetry.Put) {
			o.mu.Lock()
			defer o.mu.Unlock()
			for _, reason := range Reasons {
				put(float64(o.objects[reason]), attribute.String("reason", reason))
			}
		}},
	{Name: "titrate_operator_passes", Counter: true, Help: "Passes over all custom resources.",
		Read: telemetry.One(func(o *Operator) uint64 { return o.passes.Load() })},
	{Name: "titrate_operator_failures", Counter: true,
		Help: "Passes, and attempts to lead, that failed because the API server or the coordinator could not be asked.",
		Read: telemetry.One(func(o *Operator) uint64 { return o.failures.Load() })},
}

// Metrics describes the operator's metrics, as Prometheus names them.
func Metrics() []telemetry.Description { return telemetry.DescribeAll(table) }

// Register registers the operator's metrics.
func (o *Operator) Register(metrics *telemetry.Metrics) error {
	return telemetry.RegisterAll(metrics.Meter("github.com/titrate/titrate/services/operator"), table,
		func() *Operator { return o })
}
