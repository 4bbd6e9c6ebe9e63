package shim

/*
#include "inflight.h"
*/
import "C"

import (
	"unsafe"

	"github.com/titrate/titrate/control/limiter"
)

// newFlight allocates a limiter.Flight in C's memory (inflight.h), where the engine and C
// both count.
func newFlight() *limiter.Flight { return (*limiter.Flight)(unsafe.Pointer(C.titrate_flight_new())) }

// book tells C where to count a request.
func book(q *C.struct_titrate_question, r *limiter.Request, f *limiter.Flight) {
	q.flight = (*C.struct_titrate_flight)(unsafe.Pointer(f))
	if f != nil {
		q.micros = C.int64_t(r.Micros())
	}
}
