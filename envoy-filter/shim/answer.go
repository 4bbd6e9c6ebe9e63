package shim

/*
#include "held.h"
*/
import "C"

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
	"unsafe"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/answer"
)

// writeAnswer writes an outcome; for a refusal, everything that the client receives. heldBy is the limit or
// pool that the request has waited for.
func writeAnswer(q *C.struct_titrate_question, a *C.struct_titrate_answer, r *limiter.Request, out limiter.Outcome,
	heldBy string) {
	writeVerdict(a, out)
	if out.Flight != nil {
		a.flight = (*C.struct_titrate_flight)(unsafe.Pointer(out.Flight))
		a.micros = C.int64_t(theProcess.Load().Enforcer.PoolCost(r))
	}
	switch {
	case out.Verdict == limiter.Reject:
		writeRefusal(q, a, r, out)
	case bool(q.always) && out.Verdict == limiter.Admit:
		writeAllowance(q, a, r)
	}
	if out.Verdict == limiter.Reject || out.Shadow || out.Mark || out.Waited > 0 {
		note(q, a, r, out, heldBy)
	}
}

func writeAllowance(q *C.struct_titrate_question, a *C.struct_titrate_answer, r *limiter.Request) {
	e := theProcess.Load().Enforcer
	defer e.RecoverPanic("the RateLimit fields")
	writeFields(q, a, e.Allowance(r, limiter.None))
}

// note keeps a decision, so that it can be looked up later by the request's ID. A refusal has already read the
// ID.
func note(q *C.struct_titrate_question, a *C.struct_titrate_answer, r *limiter.Request, out limiter.Outcome,
	heldBy string) {
	p := theProcess.Load()
	defer p.Enforcer.RecoverPanic("the note of a decision")
	if out.Verdict != limiter.Reject {
		readRequestID(q)
	}
	if out.Limit == "" {
		out.Limit = string(bytesOf(a.limit[:])[:a.limit_length])
	}
	p.Note(text(q.request), r, out, heldBy)
}

// readRequestID fills in the ID that Envoy gave the request, for requests that are not admitted at once: other
// requests do not have this cost. The ID is mostly among the lines that C has fetched, and C is not called.
func readRequestID(q *C.struct_titrate_question) {
	const name = "x-request-id"
	if q.headers.count == 0 { // not fetched, or too many
		C.titrate_read_request_id(q)
		return
	}
	lines := q.headers.line[:q.headers.count]
	for i := range lines {
		if l := &lines[i]; l.key_length == C.size_t(len(name)) &&
			unsafe.String((*byte)(unsafe.Pointer(l.key)), len(name)) == name {
			q.request = C.abi_bytes{ptr: l.value, length: l.value_length}
			return
		}
	}
}

// titrateAnswerEvent writes the answer to a request that was held.
//
//export titrateAnswerEvent
func titrateAnswerEvent(q *C.struct_titrate_question, event *C.struct_titrate_event, a *C.struct_titrate_answer) {
	writeAnswer(q, a, requestOf(q), limiter.Outcome{
		Verdict: limiter.Verdict(event.verdict), Reason: limiter.Reason(event.reason),
		RetryAfter: time.Duration(event.retry_after_ns), Mark: bool(event.mark), Shadow: bool(event.shadow),
		Waited: max(time.Duration(event.wait_ms)*time.Millisecond, 1),
	}, string(bytesOf(event.held_by[:])[:event.held_by_length]))
}

// writePeek writes the answer to a peek: the rest of the limit, or a refusal.
func writePeek(q *C.struct_titrate_question, a *C.struct_titrate_answer, r *limiter.Request, out limiter.Outcome,
	allowance limiter.Allowance) {
	writeVerdict(a, out)
	if out.Verdict == limiter.Reject {
		writeRefusal(q, a, r, out)
		return
	}
	defer theProcess.Load().Enforcer.RecoverPanic("the answer to a peek")
	a.body_length = 0 // for the case of a panic below
	writeFields(q, a, allowance)
	a.body_length = length(a.body[:], answer.AppendPeek(empty(a.body[:]), out, allowance))
}

// writeVerdict writes the fields that every answer has.
func writeVerdict(a *C.struct_titrate_answer, out limiter.Outcome) {
	a.verdict, a.reason = C.int(out.Verdict), C.uint8_t(out.Reason)
	a.mark, a.shadow = C.bool(out.Mark), C.bool(out.Shadow)
	a.flight = nil
	a.slots = C.uint64_t(out.Slots)
	a.limit_length, a.policy_length, a.rate_limit_length = 0, 0, 0
	if out.Reason != limiter.None {
		put(a.reason_name[:], &a.reason_length, answer.ReasonName(out.Reason))
		put(a.limit[:], &a.limit_length, out.Limit)
	}
}

// writeRefusal writes the status, headers and body of a refusal.
func writeRefusal(q *C.struct_titrate_question, a *C.struct_titrate_answer, r *limiter.Request, out limiter.Outcome) {
	readRequestID(q)
	p := theProcess.Load()
	e := p.Enforcer
	defer e.RecoverPanic("an answer")
	// What is written here is a valid refusal, if a panic follows.
	a.status = C.uint32_t(answer.Status(out.Reason, int(q.status), p.UnknownTenantStatus()))
	a.grpc = C.uint8_t(answer.GRPCStatus(out.Reason))
	a.retry_after_length, a.body_length, a.pushback = 0, 0, C.int32_t(answer.Pushback(out))
	put(a.summary[:], &a.summary_length, answer.Summary(out.Reason))
	a.details_length = length(a.details[:], append(append(empty(a.details[:]), "titrate_"...),
		answer.ReasonName(out.Reason)...))
	if q.hash {
		titrateHash(q.client, &a.hash[0])
	}
	a.retry_after_length = length(a.retry_after[:], answer.AppendRetryAfter(empty(a.retry_after[:]), out))
	if q.json {
		a.body_length = length(a.body[:], answer.AppendBody(empty(a.body[:]), text(q.tenant), text(q.request),
			out.Reason))
	}
	if q.fields || out.Limit == "" {
		allowance := e.RefusedAllowance(r, out)
		if out.Limit == "" { // the request was held: its event has no limit
			put(a.limit[:], &a.limit_length, allowance.Limit)
		}
		if q.fields {
			writeFields(q, a, answer.RefusalAllowance(allowance, out))
		}
	}
}

// writeFields writes the RateLimit fields that the operator wants, if a limit applies.
func writeFields(q *C.struct_titrate_question, a *C.struct_titrate_answer, allowance limiter.Allowance) {
	if allowance.Limit == "" {
		return
	}
	if q.policy {
		a.policy_length = length(a.policy[:], answer.AppendPolicy(empty(a.policy[:]), allowance))
	}
	a.rate_limit_length = length(a.rate_limit[:], answer.AppendRateLimit(empty(a.rate_limit[:]), allowance))
}

// titrateHash writes 16 hexadecimal digits that stand for a client in logs.
//
//export titrateHash
func titrateHash(client C.abi_bytes, to *C.char) {
	sum := sha256.Sum256(unsafe.Slice((*byte)(unsafe.Pointer(client.ptr)), int(client.length)))
	hex.Encode(unsafe.Slice((*byte)(unsafe.Pointer(to)), 16), sum[:8])
}

// bytesOf views a C array as bytes.
func bytesOf(c []C.char) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(&c[0])), len(c)) }

// empty returns a C array as an empty slice, so that appended bytes are written in place.
func empty(c []C.char) []byte { return bytesOf(c)[:0] }

// length of a text that was appended to an empty C array; 0 if the text did not fit and is
// elsewhere.
func length(c []C.char, text []byte) C.size_t {
	if len(text) > len(c) {
		return 0
	}
	return C.size_t(len(text))
}

func put(to []C.char, length *C.size_t, s string) { *length = C.size_t(copy(bytesOf(to), s)) }
