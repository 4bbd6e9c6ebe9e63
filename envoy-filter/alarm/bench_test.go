//go:build linux

package alarm

import (
	"syscall"
	"testing"
	"time"
)

// How often a process at rest gives up its processor, and the processor time that it takes, for an alarm.
func BenchmarkWake(b *testing.B) {
	for what, of := range map[string]func() timer{"of the system": newTimer, "of Go": newOfGo} {
		b.Run(what, func(b *testing.B) {
			a := &Alarm{of: of()}
			defer a.Stop()
			var before, after syscall.Rusage
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
			for range b.N {
				a.Set(10*time.Millisecond + 300*time.Microsecond) // Go's runtime waits for 10 ms, then for one more
				a.Wait()
			}
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
			took := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
			b.ReportMetric(float64(after.Nvcsw-before.Nvcsw)/float64(b.N), "switches/op")
			b.ReportMetric(float64(took)/float64(b.N)/1000, "cpu-µs/op")
		})
	}
}
