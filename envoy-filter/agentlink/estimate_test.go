package agentlink

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

func TestEstimateAssumesTheOthersGoOn(t *testing.T) {
	var e estimator
	second := int64(time.Second)
	if e.estimate(second, false) != nil {
		t.Fatal("estimates replicas without any sums")
	}
	e.set(second, &exchange.Sums{Replicas: 3, Keys: []exchange.KeySum{{Key: 7, Admitted: 100, Claims: 20}}})
	if e.estimate(second+int64(silentAfter)/2, true) != nil {
		t.Error("estimates although the agent sends sums")
	}
	for _, c := range []struct {
		after     time.Duration
		linked    bool
		isolation exchange.Isolation
	}{
		{silentAfter / 2, false, exchange.Frozen},
		{silentAfter, true, exchange.Frozen},
		{splitAfter, false, exchange.Split},
		{aloneAfter, false, exchange.Alone},
	} {
		s := e.estimate(second+int64(c.after), c.linked)
		if s == nil {
			t.Fatalf("nothing estimated %v after the agent's last sums", c.after)
		}
		got, want := s.Keys[0].Admitted, 100+20*c.after.Seconds()
		if got < want-1e-6 || got > want+1e-6 || s.Isolation != c.isolation {
			t.Errorf("after %v: admitted %v, isolation %v, want %v, %v", c.after, got, s.Isolation, want, c.isolation)
		}
	}
	e.set(20*second, &exchange.Sums{Replicas: 1})
	if e.estimate(30*second, false) != nil {
		t.Error("estimates other replicas where there are none")
	}
}

// A panic ends one step only. A nil engine panics when it is asked for claims.
func TestPanicEndsOneEstimateOnly(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nobody")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		panics := 0
		c := New(Options{Socket: socket, Now: func() int64 { return 0 }, Log: func(string) {}, RecoverPanic: func(string) {
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
