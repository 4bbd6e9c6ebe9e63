package heldtest

/*
#include "scheduler.h"
*/
import "C"

// When the worker takes the event, or its stream ends: while the ticker wakes it, after that, or before.
const (
	Takes      = C.WORKER_TAKES
	TakesLater = C.WORKER_TAKES_LATER
	Ended      = C.WORKER_ENDED
	Ends       = C.WORKER_ENDS
	EndsLater  = C.WORKER_ENDS_LATER
)

// Outcome of a release.
type Outcome struct {
	Dropped bool   // the ticker frees the slots
	Slots   uint64 // that the worker has
	Deleted int    // schedulers
}

// Release releases a held request whose event has slots 7.
func Release(when uint32) Outcome {
	o := C.release(when)
	return Outcome{bool(o.dropped), uint64(o.slots), int(o.deleted)}
}
