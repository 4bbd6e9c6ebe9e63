package uplink

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/limiter"
)

func TestAdriftTakesTheOthersToGoOn(t *testing.T) {
	var a adrift
	second := int64(time.Second)
	if a.estimate(second, false) != nil {
		t.Fatal("estimates others that it never heard of")
	}
	a.hear(second, &limiter.Sums{Replicas: 3, Keys: []limiter.KeySum{{Key: 7, Admitted: 100, Claims: 20}}})
	if a.estimate(second+int64(silence)/2, true) != nil {
		t.Error("does not believe an agent that speaks")
	}
	for _, c := range []struct {
		after     time.Duration
		linked    bool
		isolation limiter.Isolation
	}{
		{silence / 2, false, limiter.Frozen},
		{silence, true, limiter.Frozen},
		{splitAfter, false, limiter.Split},
		{aloneAfter, false, limiter.Alone},
	} {
		s := a.estimate(second+int64(c.after), c.linked)
		if s == nil {
			t.Fatalf("nothing estimated %v after the agent's last word", c.after)
		}
		if want := 100 + 20*c.after.Seconds(); s.Keys[0].Admitted < want-1e-6 || s.Keys[0].Admitted > want+1e-6 || s.Isolation != c.isolation {
			t.Errorf("after %v: admitted %v, isolation %v, want %v, %v", c.after, s.Keys[0].Admitted, s.Isolation, want, c.isolation)
		}
	}
	a.hear(20*second, &limiter.Sums{Replicas: 1})
	if a.estimate(30*second, false) != nil {
		t.Error("estimates others where there are none")
	}
}
