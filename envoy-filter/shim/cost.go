package shim

/*
#include "held.h"
*/
import "C"

import (
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/enforcer"
	"github.com/titrate/titrate/envoy-filter/estimates"
	"github.com/titrate/titrate/envoy-filter/settings"
)

// learned has the estimates of costs that only responses say.
var learned estimates.Table

// estimate fills in the costs that the request does not say. Most requests have none.
func estimate(q *C.struct_titrate_question) {
	for i := range q.prices {
		p := &q.price[i]
		if !p.learn {
			continue
		}
		cost := &q.cost
		if p.slot >= 0 {
			cost = &q.named[p.slot]
		}
		estimate := estimateOf(q, p)
		*cost = C.double(estimate) // limits count only costs that the request has
		*cost = C.double(theProcess.Load().Enforcer.BoundEstimate(requestOf(q), int(p.slot), estimate))
	}
}

// estimateOf returns the estimate of a cost within the bounds that its settings have.
func estimateOf(q *C.struct_titrate_question, p *C.struct_titrate_price) float64 {
	cost := float64(p.response.first)
	if learns(p.response) {
		if k, known := keyOf(q, p); known {
			cost = afterLearning(k, cost)
		}
	}
	return min(max(cost, float64(p.response.least)), float64(p.response.most))
}

// afterLearning returns the estimate of a key whose requests are taken for first before any answer. Nothing has
// confirmed an old estimate for long: the greater of both counts.
func afterLearning(k estimates.Key, first float64) float64 {
	switch recent, fresh, ok := learned.Estimate(k, enforcer.Now()); {
	case !ok:
		return first
	case !fresh:
		return max(recent, first)
	default:
		return recent
	}
}

// learns reports whether the bounds of an estimate leave anything to learn.
func learns(r *C.struct_titrate_response_cost) bool { return r.least < r.most }

// keyOf returns the key of a request's estimates: durations are alike in a pool, other costs on a route. Routes without
// a name are taken for one in each pool. A key has names of the configuration, so that clients cannot invent keys.
// There is no key before the first configuration.
func keyOf(q *C.struct_titrate_question, p *C.struct_titrate_price) (k estimates.Key, known bool) {
	r := p.response
	tenant, pool, known := theProcess.Load().Enforcer.CountedAs(requestOf(q))
	if !known {
		return 0, false
	}
	kind := estimates.Kind{Tenant: tenant, Cost: uint8(p.slot + 1), From: uint8(r.from), Usage: uint8(r.usage),
		Percentile: uint8(r.percentile), Name: text(r.name), Space: text(r.space)}
	if q.route.length > 0 && r.from != C.int(settings.CostDuration) {
		kind.Route = text(q.route)
	} else {
		kind.Pool = pool
	}
	return estimates.KeyOf(&kind), true
}

// titrateCorrectCharge replaces the estimate of a cost of an admitted request by the cost in its response: the
// text if written, else the number. It returns that cost in millionths of a unit, or −1 if the response has none
// or an invalid one, and sets ofPool if the request's pool counts that cost. learn: the costs of later requests
// are estimated by it, if this one's was.
//
//export titrateCorrectCharge
func titrateCorrectCharge(q *C.struct_titrate_question, price C.size_t, written C.bool, cost C.abi_bytes,
	number C.double, learn C.bool, ofPool *C.bool) (micros C.int64_t) {
	micros = -1
	e := theProcess.Load().Enforcer
	defer e.RecoverPanic("the correction of a charge")
	var actual float64
	var ok bool
	if written {
		actual, ok = e.ParseCost(text(cost))
	} else {
		actual, ok = e.CheckCost(float64(number))
	}
	if !ok {
		return -1
	}
	micros = C.int64_t(limiter.Micros(actual))
	p, r := &q.price[price], requestOf(q)
	*ofPool = C.bool(e.CorrectCharge(r, int(p.slot), actual))
	if bool(p.learn && learn) && learns(p.response) {
		if k, known := keyOf(q, p); known {
			learned.Learn(k, enforcer.Now(), min(actual, limiter.MaxCost), int(p.response.percentile))
		}
	}
	return micros
}

// titrateCountUsage counts an answer whose usage was to be read.
//
//export titrateCountUsage
func titrateCountUsage(outcome C.int) {
	theProcess.Load().Enforcer.CountUsage(enforcer.Usage(outcome))
}
