package alarm

import (
	"testing"
	"time"
)

// An alarm rings after the shortest of the times that it was set to since it rang last, once, and not after its end.
func TestAlarm(t *testing.T) {
	for what, of := range map[string]timer{"of the system": newTimer(), "of Go": newOfGo()} {
		a := &Alarm{of: of}
		for _, after := range []time.Duration{20 * time.Millisecond, 0, 5 * time.Millisecond} {
			set := time.Now()
			a.Set(time.Hour)
			a.Set(after)
			a.Set(2 * time.Hour)
			if rang := a.Wait(); !rang || time.Since(set) < after {
				t.Errorf("%s: set to %v, rang: %v after %v", what, after, rang, time.Since(set))
			}
		}
		go func() {
			time.Sleep(5 * time.Millisecond)
			a.Stop()
		}()
		if a.Wait() {
			t.Errorf("%s: rings without being set", what)
		}
		if a.Set(0); a.Wait() {
			t.Errorf("%s: rings after its end", what)
		}
	}
}
