// How exactly the Go runtime's threads wake up.
//
// Go's monitor thread sleeps 20 µs and looks whether a thread has been in C for
// 10 ms with a processor that others might want. Envoy's workers have: a
// processor stays with the worker's thread between two requests. The monitor
// takes it away, which resets its sleep to 20 µs, and never comes to rest: 3000
// wake-ups per second, 8 % of the CPU of a busy Envoy, and a processor to be
// found again by the next request. There is no setting for it.
//
// But Linux lets a thread say how late it may be woken (its timer slack, 50 µs
// by default), and a thread inherits it from the one that starts it. So the
// slack is stretched while the runtime is started, which happens before any other
// constructor of this object, and put back after: the runtime's first thread
// and the monitor, which that one starts, are left with it. The monitor then
// wakes some 200 times a second. Others that have it are given the usual one by
// the ticker, the only one that minds (threads.go).
//
// What the monitor does late by this: it preempts a goroutine after 15 ms
// instead of 10, and finds a processor that all others wait for 5 ms later. There
// are more processors than workers (setProcs), so nobody waits.

#include <sys/prctl.h>

#include "shim.h"

enum { MONITOR_SLACK_NS = 5000000 };

static int before; // of the thread that loads the module

// 101 is the first priority that is not the compiler's; Go's own constructor has none.
__attribute__((constructor(101))) static void stretch(void) {
  before = prctl(PR_GET_TIMERSLACK);
  prctl(PR_SET_TIMERSLACK, MONITOR_SLACK_NS);
}

void titrate_slack_back(void) {
  if (before > 0) prctl(PR_SET_TIMERSLACK, before);
}
