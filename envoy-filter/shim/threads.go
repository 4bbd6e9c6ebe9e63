package shim

import (
	"runtime"
	"syscall"
)

// setProcs gives each worker room for its calls beside the ticker, the link
// and the collector: with fewer, a worker waits for a processor, up to 14 ms.
func setProcs(workers int) { runtime.GOMAXPROCS(2*workers + 4) }

// usualSlack is Linux's default: how much later than asked a thread may wake up.
const usualSlack = 50_000 // ns

// wakeOnTime makes the calling thread wake up on time. Threads of the runtime may
// have inherited the slack that its monitor has been given (timer_slack.c); the one
// that wakes up for the ticker is the one that then ticks.
func wakeOnTime() {
	const setTimerSlack = 29
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, usualSlack, 0) // it cannot fail
}
