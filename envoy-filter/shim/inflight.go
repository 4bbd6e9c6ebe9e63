package shim

/*
#include "inflight.h"
*/
import "C"

import (
	"unsafe"

	"github.com/titrate/titrate/control/limiter"
)

// newFlight makes a limiter.Flight in C's memory (inflight.h): the engine and C both count
// in it.
func newFlight() *limiter.Flight { return (*limiter.Flight)(unsafe.Pointer(C.titrate_flight_new())) }
