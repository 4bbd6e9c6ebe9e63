package shim

/*
#include "shim.h"
*/
import "C"

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
	"unsafe"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/answer"
	"github.com/titrate/titrate/envoy-filter/settings"
)

// titrateAnswer writes what is told of a request that was held: its refusal, or
// what an access log and the response say of it.
//
//export titrateAnswer
func titrateAnswer(q *C.struct_titrate_question, event *C.struct_titrate_event) {
	out := limiter.Outcome{
		Verdict: limiter.Verdict(event.verdict), Reason: limiter.Reason(event.reason),
		RetryAfter: time.Duration(event.retry_after_ns), Mark: bool(event.mark), Shadow: bool(event.shadow),
	}
	r := requestOf(q)
	writeAnswer(q, &r, out)
}

// titrateReason writes the reason's name for an access log.
//
//export titrateReason
func titrateReason(q *C.struct_titrate_question) {
	put(q.reason[:], &q.reason_length, answer.ReasonName(limiter.Reason(q.why)))
}

// titrateHash writes 16 hexadecimal digits that stand for a client in logs.
//
//export titrateHash
func titrateHash(client C.abi_bytes, to *C.char) {
	sum := sha256.Sum256(unsafe.Slice((*byte)(unsafe.Pointer(client.ptr)), int(client.length)))
	hex.Encode(unsafe.Slice((*byte)(unsafe.Pointer(to)), 16), sum[:8])
}

// titratePeek answers what is left, and charges nothing.
//
//export titratePeek
func titratePeek(q *C.struct_titrate_question) {
	e := theProcess.Load().Enforcer
	r := requestOf(q)
	out, a := e.Peek(&r)
	q.verdict = C.int(out.Verdict)
	writeReason(q, out)
	if out.Verdict == limiter.Reject {
		writeRefusal(q, &r, out)
		return
	}
	defer e.RecoverPanic("a peek's answer")
	q.body_length = 0 // what a panic below leaves
	writeFields(q, a)
	q.body_length = C.size_t(len(answer.AppendPeek(bytesOf(q.body[:])[:0], out, a)))
}

// titrateSettle corrects the charge of an admitted request by the cost that its
// response told: the text if it was written, else the number. It says in micros what
// that is, below 0 if nothing was told or what was told is no cost.
//
//export titrateSettle
func titrateSettle(q *C.struct_titrate_question, written C.bool, said C.abi_bytes, number C.double) {
	q.micros = -1
	e := theProcess.Load().Enforcer
	defer e.RecoverPanic("a settlement")
	var actual float64
	var ok bool
	if written {
		actual, ok = e.ParseCost(text(said))
	} else {
		actual, ok = e.CheckCost(float64(number))
	}
	if !ok {
		return
	}
	q.micros = C.int64_t(limiter.Micros(actual))
	r := requestOf(q)
	e.CorrectCharge(&r, actual)
}

// writeAnswer writes an outcome; for a refusal all that the client is told.
func writeAnswer(q *C.struct_titrate_question, r *limiter.Request, out limiter.Outcome) {
	q.verdict = C.int(out.Verdict)
	q.mark = 0
	if out.Mark {
		q.mark = 1
	}
	if out.Reason != limiter.None {
		writeReason(q, out)
	}
	switch {
	case out.Verdict == limiter.Reject:
		writeRefusal(q, r, out)
	case bool(q.always) && out.Verdict == limiter.Admit:
		e := theProcess.Load().Enforcer
		defer e.RecoverPanic("the RateLimit fields")
		writeFields(q, e.Allowance(r, limiter.None))
	}
}

// writeReason writes why, for access logs.
func writeReason(q *C.struct_titrate_question, out limiter.Outcome) {
	q.why, q.shadow = C.uint8_t(out.Reason), C.bool(out.Shadow)
	put(q.limit[:], &q.limit_length, out.Limit)
}

func writeRefusal(q *C.struct_titrate_question, r *limiter.Request, out limiter.Outcome) {
	e := theProcess.Load().Enforcer
	defer e.RecoverPanic("an answer")
	// A panic below leaves a plain, valid refusal.
	q.status = C.uint32_t(answer.Status(out.Reason, int(q.refuse), theProcess.Load().UnknownTenantStatus()))
	q.grpc = C.uint8_t(answer.GRPCStatus(out.Reason))
	q.retry_after_length, q.reason_length, q.details_length, q.body_length, q.pushback_length = 0, 0, 0, 0, 0
	reason := answer.ReasonName(out.Reason)
	put(q.reason[:], &q.reason_length, reason)
	put(q.details[:], &q.details_length, "titrate_"+reason)
	if q.hash {
		titrateHash(q.client, &q.hashed[0])
	}
	q.retry_after_length = C.size_t(len(answer.AppendRetryAfter(bytesOf(q.retry_after[:])[:0], out)))
	q.pushback_length = C.size_t(len(answer.AppendPushback(bytesOf(q.pushback[:])[:0], out)))
	q.body_length = C.size_t(len(answer.AppendBody(bytesOf(q.body[:])[:0], text(q.tenant), out.Reason)))
	if q.fields || out.Limit == "" {
		a := e.Allowance(r, out.Reason)
		if out.Limit == "" { // it was held: its event does not say
			put(q.limit[:], &q.limit_length, a.Limit)
		}
		if a.Limit != "" && q.fields {
			writeFields(q, answer.RefusalAllowance(a, r, out))
		}
	}
}

// writeFields writes the RateLimit fields.
func writeFields(q *C.struct_titrate_question, a limiter.Allowance) {
	if a.Limit == "" {
		return
	}
	q.policy_length = C.size_t(len(answer.AppendPolicy(bytesOf(q.policy[:])[:0], a)))
	q.rate_limit_length = C.size_t(len(answer.AppendRateLimit(bytesOf(q.rate_limit[:])[:0], a)))
}

// manners copies what an operator wants of answers.
func (b builder) manners(to *C.struct_titrate_manners, from *settings.Answers) {
	if from.Mode != nil {
		to.mode = C.int(*from.Mode) + 1
	}
	to.status, to.body = C.uint32_t(from.Status), C.int(from.Body)
	to.rate_limit, to.log, to.log_client = C.int(from.RateLimit), C.int(from.Log), C.int(from.LogClient)
	if from.MarkUpstream != nil {
		to.mark_upstream = C.TITRATE_OFF
		if *from.MarkUpstream {
			to.mark_upstream = C.TITRATE_ON
		}
	}
	for _, name := range []struct {
		from settings.Name
		to   *C.struct_titrate_name
	}{{from.Reason, &to.reason}, {from.Wait, &to.wait}, {from.Congestion, &to.congestion}, {from.Peek, &to.peek}} {
		if name.from != nil {
			name.to.set, name.to.text = true, b.text(*name.from)
		}
	}
	to.cost_from = C.int(from.CostFrom)
	to.cost_name, to.cost_space = b.text(from.CostName), b.text(from.CostSpace)
}
