package coordinator

import (
	"context"
	"testing"
	"time"

	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/telemetry"
)

// While etcd does not say the seed, nothing of a trace waits for it: neither a round nor a change.
func TestTracesDoNotWaitForEtcd(t *testing.T) {
	traces := &changeTraces{sender: &telemetry.Traces{}}
	ctx, cancel := context.WithCancel(t.Context())
	asked, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		traces.learn(ctx, func(ctx context.Context) (uint64, error) {
			close(asked)
			<-ctx.Done()
			return 0, ctx.Err()
		})
	}()
	<-asked
	traces.stored("apply", 1, 5, time.Now())
	traces.read(store.Batch{Revision: 5}, time.Now())
	traces.round(func() int64 { return 5 })
	cancel()
	<-done
}

// A coordinator that begins to lead long after a change has no first round with it.
func TestTracesOfAStandby(t *testing.T) {
	traces := &changeTraces{sender: &telemetry.Traces{}, seed: 1, revision: 5, known: time.Now().Add(-time.Hour)}
	traces.follows()
	if traces.revision != 0 {
		t.Error("the round with which it begins to lead counts as the first one with the change")
	}
	traces.round(func() int64 { return 5 })
}
