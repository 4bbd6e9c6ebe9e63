package config

import (
	"fmt"
	"strconv"
)

// PlanIdentity is the identity that has the name of a request's plan. Gateways read it where their operators say, and
// no limit can name it: it is the name of no identity.
const PlanIdentity = "@plan"

// MaxLimitPlans is the most plans of a limit.
const MaxLimitPlans = 32

// validatePlans refuses plans of a limit without a rate, and what a plan cannot have.
func (l *Limit) validatePlans(path string) error {
	switch {
	case len(l.Plans) == 0:
		return nil
	case l.Concurrency > 0 || l.Quota != nil:
		return &FieldError{join(path, "plans"), len(l.Plans),
			"none beside a concurrency or a quota: give such tenants a plan of their own, plans/NAME"}
	case len(l.Plans) > MaxLimitPlans:
		return &FieldError{join(path, "plans"), len(l.Plans), fmt.Sprint("at most ", MaxLimitPlans)}
	}
	for name, rb := range l.Plans {
		at := join(path, "plans["+name+"]")
		if name == "" || len(name) > maxPlanName {
			return &FieldError{at + ".plan", strconv.Quote(name), fmt.Sprint("a name of 1 to ", maxPlanName, " bytes")}
		}
		if rb.Concurrency != 0 || rb.Amount != 0 || rb.Until != 0 {
			return &FieldError{at, rb, "a rate and a burst alone"}
		}
		if err := rb.validate(at); err != nil {
			return err
		}
	}
	return nil
}

// maxPlanName is the most bytes of a plan's name in a limit.
const maxPlanName = 63
