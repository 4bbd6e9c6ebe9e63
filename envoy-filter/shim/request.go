package shim

/*
#include "shim.h"
*/
import "C"

import (
	"unsafe"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter"
)

// requestOf is a question as the engine sees it; its strings alias Envoy's
// memory for the call.
func requestOf(q *C.struct_titrate_question) limiter.Request {
	r := limiter.Request{Tenant: text(q.tenant), Client: text(q.client), Pool: text(q.pool), Cost: float64(q.cost), Mode: config.Mode(q.mode)}
	if q.named {
		r.Identities, r.Classes = identitiesOf(q), uint32(q.classes)
	}
	return r
}

// titrateDecide answers a request that has just arrived.
//
//export titrateDecide
func titrateDecide(q *C.struct_titrate_question) {
	r := requestOf(q)
	out := theProcess.Load().Enforcer.Decide(&r)
	writeAnswer(q, &r, out)
	book(q, &r, out.Flight)
}

// titrateEnqueue holds a request that titrateDecide said would have to wait,
// unless the engine has changed its mind.
//
//export titrateEnqueue
func titrateEnqueue(q *C.struct_titrate_question) {
	r := requestOf(q)
	out, handle := theProcess.Load().Enforcer.Enqueue(&r, uint64(q.ticket))
	q.handle = C.uint64_t(handle)
	writeAnswer(q, &r, out)
	book(q, &r, out.Flight)
}

// titrateCancel takes a held request out; 0 if its event is on its way.
//
//export titrateCancel
func titrateCancel(handle C.uint64_t) C.int {
	if theProcess.Load().Enforcer.Cancel(limiter.Handle(handle)) {
		return 1
	}
	return 0
}

// bytesOf views a C array as bytes; appending to it within its capacity writes
// in place.
func bytesOf(c []C.char) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&c[0])), len(c))
}

func put(to []C.char, length *C.size_t, s string) {
	*length = C.size_t(copy(bytesOf(to), s))
}
