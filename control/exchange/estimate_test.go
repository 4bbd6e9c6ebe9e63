package exchange_test

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

func TestEstimateAssumesTheOthersGoOn(t *testing.T) {
	var e exchange.Estimator
	second := int64(time.Second)
	if e.Estimate(second, false) != nil {
		t.Fatal("estimates replicas without any sums")
	}
	e.Set(second, &exchange.Sums{Replicas: 3, Keys: []exchange.KeySum{{Key: 7, Admitted: 100, Claims: 20}}})
	if e.Estimate(second+int64(exchange.SilentAfter)/2, true) != nil {
		t.Error("estimates although the agent sends sums")
	}
	for _, c := range []struct {
		after     time.Duration
		linked    bool
		isolation exchange.Isolation
	}{
		{exchange.SilentAfter / 2, false, exchange.Frozen},
		{exchange.SilentAfter, true, exchange.Frozen},
		{exchange.DefaultSplitAfter, false, exchange.Split},
		{exchange.DefaultForgetAfter, false, exchange.Alone},
	} {
		s := e.Estimate(second+int64(c.after), c.linked)
		if s == nil {
			t.Fatalf("nothing estimated %v after the agent's last sums", c.after)
		}
		got, want := s.Keys[0].Admitted, 100+20*c.after.Seconds()
		if got < want-1e-6 || got > want+1e-6 || s.Isolation != c.isolation {
			t.Errorf("after %v: admitted %v, isolation %v, want %v, %v", c.after, got, s.Isolation, want, c.isolation)
		}
	}
	e.Set(20*second, &exchange.Sums{Replicas: 1})
	if e.Estimate(30*second, false) != nil {
		t.Error("estimates other replicas where there are none")
	}
}
