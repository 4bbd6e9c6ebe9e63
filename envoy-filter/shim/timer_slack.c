// How exactly the Go runtime's threads wake up.
//
// Go's monitor thread sleeps 20 µs and looks whether a thread has been in C for
// 10 ms with a processor of the Go runtime that others might need. Envoy's workers have
// one: a processor stays with the worker's thread between two requests. The monitor
// takes it away, which resets the monitor's sleep to 20 µs. So the monitor never rests:
// 3000 wake-ups per second, 8 % of the CPU of a busy Envoy, and the next request has to
// find a processor again. Go has no setting for this.
//
// But Linux lets a thread say how late it may be woken (its timer slack, 50 µs by
// default), and a thread inherits the slack of the thread that starts it. So this file
// raises the slack while the Go runtime starts, before any other constructor of this
// object, and restores it afterwards. The runtime's first thread, and the monitor that
// it starts, keep the raised slack. The monitor then wakes some 200 times a second.
// Other threads that have inherited the slack restore the usual one when the ticker runs
// on them: only the ticker needs it (threads.go).
//
// What the monitor then does later: it preempts a goroutine after 15 ms instead of 10,
// and takes a processor away 5 ms later when all are in use. There are more processors
// than workers (setProcs), so no worker waits for one.

#include <sys/prctl.h>

#include "process.h"

enum { MONITOR_SLACK_NS = 5000000 };

static int before; // of the thread that loads the module

// 101 is the first priority that is not the compiler's; Go's own constructor has none.
__attribute__((constructor(101))) static void raise_slack(void) {
  before = prctl(PR_GET_TIMERSLACK);
  prctl(PR_SET_TIMERSLACK, MONITOR_SLACK_NS);
}

void titrate_restore_timer_slack(void) {
  if (before > 0) prctl(PR_SET_TIMERSLACK, before);
}
