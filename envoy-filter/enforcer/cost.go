package enforcer

import (
	"math"
	"strconv"
	"strings"

	"github.com/titrate/titrate/control/limiter"
)

// BoundEstimate returns the estimate of a cost of a request, at most the smallest burst of the limits that count it:
// above that they would refuse the request for ever. The place is limiter.Plain, or that of a cost in r.Costs. The
// request has a cost there, such as the estimate.
func (e *Enforcer) BoundEstimate(r *limiter.Request, place int, estimate float64) (bounded float64) {
	bounded = estimate // in case of a panic
	defer e.RecoverPanic("the bound of an estimate")
	return min(estimate, e.o.Engine.LeastBurst(r, place))
}

// ParseCost reads the cost in a response: a finite number ≥ 0, in cost units, perhaps with blanks around it. It
// returns false for an empty text and for anything else; texts that are not empty are counted as refused. The
// estimate then stands.
func (e *Enforcer) ParseCost(text string) (cost float64, ok bool) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, false
	}
	cost, err := strconv.ParseFloat(text, 64)
	if err != nil {
		cost = math.NaN()
	}
	return e.CheckCost(cost)
}

// CheckCost is ParseCost for a number.
func (e *Enforcer) CheckCost(cost float64) (checked float64, ok bool) {
	if !(cost >= 0) || math.IsInf(cost, 1) {
		e.invalidCosts.Add(1)
		return 0, false
	}
	return cost, true
}

// InvalidCosts is the number of costs in responses that were no finite number ≥ 0.
func (e *Enforcer) InvalidCosts() uint64 { return e.invalidCosts.Load() }

// Usage says what became of an answer whose usage was to be read.
type Usage uint8

// The outcomes.
const (
	UsageRead    Usage = iota
	UsageEncoded       // its content-encoding cannot be read
	UsageMissing       // it ended without usage
	UsageCut           // its stream ended before it did
	Usages
)

var usageNames = [Usages]string{"read", "encoded", "missing", "cut"}

// String is the outcome's name in metrics.
func (u Usage) String() string { return usageNames[u] }

// CountUsage counts an answer whose usage was to be read.
func (e *Enforcer) CountUsage(u Usage) {
	if u < Usages {
		e.usages[u].Add(1)
	}
}

// UsagesRead is the number of answers whose usage was to be read, by outcome.
func (e *Enforcer) UsagesRead() (n [Usages]uint64) {
	for i := range n {
		n[i] = e.usages[i].Load()
	}
	return n
}
