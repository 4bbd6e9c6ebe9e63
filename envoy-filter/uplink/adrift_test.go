package uplink

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

func TestAdriftTakesTheOthersToGoOn(t *testing.T) {
	var a adrift
	second := int64(time.Second)
	if a.estimate(second, false) != nil {
		t.Fatal("estimates others that it never heard of")
	}
	a.hear(second, &exchange.Sums{Replicas: 3, Keys: []exchange.KeySum{{Key: 7, Admitted: 100, Claims: 20}}})
	if a.estimate(second+int64(silence)/2, true) != nil {
		t.Error("does not believe an agent that speaks")
	}
	for _, c := range []struct {
		after     time.Duration
		linked    bool
		isolation exchange.Isolation
	}{
		{silence / 2, false, exchange.Frozen},
		{silence, true, exchange.Frozen},
		{splitAfter, false, exchange.Split},
		{aloneAfter, false, exchange.Alone},
	} {
		s := a.estimate(second+int64(c.after), c.linked)
		if s == nil {
			t.Fatalf("nothing estimated %v after the agent's last word", c.after)
		}
		if want := 100 + 20*c.after.Seconds(); s.Keys[0].Admitted < want-1e-6 || s.Keys[0].Admitted > want+1e-6 || s.Isolation != c.isolation {
			t.Errorf("after %v: admitted %v, isolation %v, want %v, %v", c.after, s.Keys[0].Admitted, s.Isolation, want, c.isolation)
		}
	}
	a.hear(20*second, &exchange.Sums{Replicas: 1})
	if a.estimate(30*second, false) != nil {
		t.Error("estimates others where there are none")
	}
}

// A panic ends one step of the stand-in, not the stand-in. A nil engine panics when it
// is asked for claims.
func TestPanicEndsOneStepOfDriftOnly(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nobody")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		panics := 0
		c := New(Options{Socket: socket, Now: func() int64 { return 0 }, Log: func(string) {}, Contain: func(string) {
			if recover() != nil {
				panics++
			}
		}})
		done := make(chan struct{})
		go func() { defer close(done); c.drift(ctx) }()
		time.Sleep(10*claimsEvery + claimsEvery/2)
		cancel()
		<-done
		if panics != 10 {
			t.Errorf("%d steps in 10 periods", panics)
		}
	})
}
