package main

/*
#include "shim.h"
*/
import "C"

import (
	"strconv"
	"time"
	"unsafe"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/gate"
)

// requestOf is a question as the engine sees it; its strings alias Envoy's
// memory for the call.
func requestOf(q *C.struct_titrate_question) limiter.Request {
	r := limiter.Request{Tenant: text(q.tenant), Client: text(q.client), Pool: text(q.pool), Cost: float64(q.cost)}
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
	out := theProcess.Load().gate.Decide(&r)
	answer(q, out)
	book(q, &r, out.Flight)
}

// titrateEnqueue holds a request that titrateDecide said would have to wait,
// unless the engine has changed its mind.
//
//export titrateEnqueue
func titrateEnqueue(q *C.struct_titrate_question) {
	r := requestOf(q)
	out, handle := theProcess.Load().gate.Enqueue(&r, uint64(q.ticket))
	q.handle = C.uint64_t(handle)
	answer(q, out)
	book(q, &r, out.Flight)
}

// titrateCancel takes a held request out; 0 if its event is on its way.
//
//export titrateCancel
func titrateCancel(handle C.uint64_t) C.int {
	if theProcess.Load().gate.Cancel(limiter.Handle(handle)) {
		return 1
	}
	return 0
}

// titrateAnswer writes the refusal of a request that was held.
//
//export titrateAnswer
func titrateAnswer(q *C.struct_titrate_question, e *C.struct_titrate_event) {
	answer(q, limiter.Outcome{
		Verdict: limiter.Reject, Reason: limiter.Reason(e.reason), RetryAfter: time.Duration(e.retry_after_ns),
	})
}

// answer writes an outcome; for a refusal all that the client is told.
func answer(q *C.struct_titrate_question, out limiter.Outcome) {
	q.verdict = C.int(out.Verdict)
	q.mark = 0
	if out.Mark {
		q.mark = 1
	}
	if out.Verdict == limiter.Reject {
		refuse(q, out)
	}
}

func refuse(q *C.struct_titrate_question, out limiter.Outcome) {
	defer theProcess.Load().gate.Contain("an answer")
	// A panic below leaves a plain, valid refusal.
	q.status = C.uint32_t(gate.Status(out.Reason))
	q.retry_after_length, q.reason_length, q.details_length, q.body_length = 0, 0, 0, 0
	reason := gate.ReasonName(out.Reason)
	put(q.reason[:], &q.reason_length, reason)
	put(q.details[:], &q.details_length, "titrate_"+reason)
	seconds := strconv.AppendInt(bytesOf(q.retry_after[:])[:0], gate.RetrySeconds(out.RetryAfter), 10)
	q.retry_after_length = C.size_t(len(seconds))
	body := gate.AppendBody(bytesOf(q.body[:])[:0], text(q.tenant), out.Reason)
	q.body_length = C.size_t(len(body))
}

// bytesOf views a C array as bytes; appending to it within its capacity writes
// in place.
func bytesOf(c []C.char) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&c[0])), len(c))
}

func put(to []C.char, length *C.size_t, s string) {
	*length = C.size_t(copy(bytesOf(to), s))
}
