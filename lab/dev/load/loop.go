package load

import (
	"context"
	"sync"
	"time"

	"github.com/titrate/titrate/lab/dev/scenario"
)

// Loop plays the scenario again and again until ctx ends, each time with the next seed
// and without a gap. A round begins at its time even while answers of the last one are
// awaited. Records go to Observe alone.
func (g *Generator) Loop(ctx context.Context, s scenario.Scenario, start time.Time) {
	var rounds sync.WaitGroup
	defer rounds.Wait()
	length := time.Duration(s.Duration() * float64(time.Second))
	for sleepUntil(ctx, start.Add(-planAhead)) {
		round := s
		plan := NewPlan(&round)
		begin := start
		rounds.Go(func() { _, _ = g.Run(ctx, &round, plan, begin) }) // its error is ctx's
		s.Seed++
		start = start.Add(length)
	}
}

// planAhead is the time before a round at which its schedule is made.
const planAhead = 100 * time.Millisecond
