package simulate

import (
	"context"

	"github.com/titrate/titrate/services/simulate/measure"
	"github.com/titrate/titrate/services/simulate/scenario"
)

// Result is the outcome of a scenario.
type Result = measure.Result

// Options of a run. The zero value plays Titrate alone.
type Options struct {
	// Baselines are played after Titrate, in this order; see [Baselines].
	Baselines []string
	// Alone leaves Titrate out: only Baselines are played.
	Alone bool
	// Series asks for the rates over time.
	Series bool
	// Progress is told now and then what part of the whole is done, 0 to 1.
	Progress func(fraction float64)
}

// Run plays a scenario. The error names a mistake in the scenario (a
// *scenario.FieldError), an unknown baseline, or is ctx's.
func Run(ctx context.Context, s *scenario.Scenario, o Options) (*Result, error) {
	return nil, ctx.Err()
}
