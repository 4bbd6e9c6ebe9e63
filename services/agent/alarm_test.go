package agent

import (
	"testing"
	"testing/synctest"
	"time"
)

// An alarm rings at the earliest of the times that were set since it rang last, at once if that has passed.
func TestAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, a := time.Now(), newAlarm()
		const ms = time.Millisecond
		for _, c := range []struct {
			set  []time.Duration
			want time.Duration
		}{
			{[]time.Duration{0, 50 * ms, 90 * ms, 20 * ms, 0}, 20 * ms},
			{[]time.Duration{90 * ms}, 90 * ms},
			{[]time.Duration{100 * ms, 30 * ms}, 90 * ms},
		} {
			for _, at := range c.set {
				a.set(time.Since(start), at)
			}
			<-a.timer.C
			if a.rang(); time.Since(start) != c.want {
				t.Errorf("set to %v: rang at %v, want %v", c.set, time.Since(start), c.want)
			}
		}
	})
}
