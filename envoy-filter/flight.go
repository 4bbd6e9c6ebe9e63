package main

/*
#include "flight.h"
*/
import "C"

import (
	"unsafe"

	"github.com/titrate/titrate/control/limiter"
)

// A limiter.Flight in C's memory, see flight.h; the engine and C count in the
// same words.
var _ = [1]struct{}{}[unsafe.Sizeof(limiter.Flight{})-C.sizeof_struct_titrate_flight]

func newFlight() *limiter.Flight { return (*limiter.Flight)(unsafe.Pointer(C.titrate_flight_new())) }

// book tells C where to count a request.
func book(q *C.struct_titrate_question, r *limiter.Request, f *limiter.Flight) {
	q.flight = (*C.struct_titrate_flight)(unsafe.Pointer(f))
	if f != nil {
		q.micros = C.int64_t(r.Micros())
	}
}
