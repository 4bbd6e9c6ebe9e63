package shim

import (
	"runtime"
	"syscall"
)

// setProcs gives Go's runtime enough processors for the calls of all workers, the ticker,
// the link and the garbage collector. With fewer, a worker waits for one, up to 14 ms.
func setProcs(workers int) { runtime.GOMAXPROCS(2*workers + 4) }

// usualSlack is Linux's default timer slack: how late a thread may wake up.
const usualSlack = 50_000 // ns

// wakeOnTime sets the usual timer slack for the calling thread, which may have inherited
// the raised one (timer_slack.c). The ticker calls it on the thread that woke for the tick.
func wakeOnTime() {
	const setTimerSlack = 29
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, usualSlack, 0) // it cannot fail
}
