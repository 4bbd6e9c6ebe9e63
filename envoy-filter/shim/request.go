package shim

/*
#include "held.h"
*/
import "C"

import (
	"unsafe"

	"github.com/titrate/titrate/control/limiter"
)

// requestOf returns a question as the engine reads it, for the call's duration only. It is the
// beginning of the question (constants.go), in C's memory, so that no request allocates.
func requestOf(q *C.struct_titrate_question) *limiter.Request {
	return (*limiter.Request)(unsafe.Pointer(q))
}

// titrateDecide answers a request that has just arrived.
//
//export titrateDecide
func titrateDecide(q *C.struct_titrate_question, a *C.struct_titrate_answer) {
	estimate(q)
	r := requestOf(q)
	writeAnswer(q, a, r, theProcess.Load().Enforcer.Decide(r), "")
}

// titrateEnqueue holds a request that titrateDecide did not decide at once, unless the engine now decides
// otherwise. It returns the handle of the held request.
//
//export titrateEnqueue
func titrateEnqueue(q *C.struct_titrate_question, ticket C.uint64_t, a *C.struct_titrate_answer) C.uint64_t {
	r := requestOf(q)
	out, handle := theProcess.Load().Enforcer.Enqueue(r, uint64(ticket))
	writeAnswer(q, a, r, out, "")
	return C.uint64_t(handle)
}

// titrateCancel removes a held request from the queue; false if its event is on its way.
//
//export titrateCancel
func titrateCancel(handle C.uint64_t) C.bool {
	return C.bool(theProcess.Load().Enforcer.Cancel(limiter.Handle(handle)))
}

// titrateFreeSlots notes that a stream with slots of concurrency limits has ended.
//
//export titrateFreeSlots
func titrateFreeSlots(slots C.uint64_t) { theProcess.Load().Enforcer.FreeSlots(limiter.Slots(slots)) }

// titrateLendSlots notes that a stream with slots was redirected.
//
//export titrateLendSlots
func titrateLendSlots(slots C.uint64_t) { theProcess.Load().Enforcer.LendSlots(limiter.Slots(slots)) }

// titrateKeepSlots gives the slots of a redirected stream to the stream that follows it; false: they are free by now.
//
//export titrateKeepSlots
func titrateKeepSlots(slots C.uint64_t) C.bool {
	return C.bool(theProcess.Load().Enforcer.KeepSlots(limiter.Slots(slots)))
}

// titratePeek returns the rest of the limit, and charges nothing.
//
//export titratePeek
func titratePeek(q *C.struct_titrate_question, a *C.struct_titrate_answer) {
	estimate(q)
	r := requestOf(q)
	out, allowance := theProcess.Load().Enforcer.Peek(r)
	writePeek(q, a, r, out, allowance)
}
