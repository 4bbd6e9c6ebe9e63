package agentlink

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// A panic ends one step only. A nil engine panics when it is asked for claims.
func TestPanicEndsOneEstimateOnly(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nobody")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		panics := 0
		c := New(Options{Socket: socket, Now: func() int64 { return 0 }, Log: func(string) {},
			RecoverPanic: func(string) {
				if recover() != nil {
					panics++
				}
			}})
		done := make(chan struct{})
		go func() { defer close(done); c.estimateWhileSilent(ctx) }()
		time.Sleep(10*claimsEvery + claimsEvery/2)
		cancel()
		<-done
		if panics != 10 {
			t.Errorf("%d steps in 10 periods", panics)
		}
	})
}
