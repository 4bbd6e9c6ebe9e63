package valid

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

// semantic returns the violations of a resource that the .proto cannot declare. wrong says that there are others.
func semantic(m resource.Message, wrong bool) []Violation {
	m = proto.Clone(m).(resource.Message)
	resource.FillDefaults(m)
	var found []Violation
	var err error
	switch m := m.(type) {
	case *quotav1.Pool:
		found = pool(m)
		_, err = resource.PoolConfig(m)
	case *quotav1.Plan:
		_, err = resource.PlanConfig(m)
	case *quotav1.Tenant:
		_, err = resource.TenantConfig(m)
	case *quotav1.Quota:
		_, err = resource.QuotaConfig(m)
	case *quotav1.Limit:
		found = limit(m)
		_, err = resource.LimitConfig(m)
	case *quotav1.Override:
		if m.GetConcurrency() == 0 && m.GetAmount() == 0 {
			found = numbers("", m, false)
		}
		_, _, err = resource.OverrideConfig(m)
	}
	if len(found) == 0 && err != nil && !wrong {
		found = append(found, refusal(err))
	}
	return found
}

// refusal is the reason for which gateways would leave a resource out.
func refusal(err error) Violation {
	if fault := new(config.FieldError); errors.As(err, &fault) {
		return Violation{Field: fault.Field, Message: fmt.Sprintf("is %v, want %s", fault.Value, fault.Want)}
	}
	return Violation{Message: err.Error()}
}

func pool(p *quotav1.Pool) []Violation {
	found := queue(p.Queue)
	if p.OnLoss == quotav1.OnLoss_SAFE_RATE && p.HardExpiry.AsDuration() <= 0 {
		found = append(found, Violation{"hard_expiry",
			"must be above 0 with on_loss SAFE_RATE: it says when to fall to the safe rate", []string{"on_loss"}})
	}
	if a := p.Adaptive; a != nil && (p.Capacity < a.Min || p.Capacity > a.Max) {
		found = append(found, Violation{"capacity", fmt.Sprintf(
			"%s must lie within adaptive.min and adaptive.max, %s to %s: the estimate begins there",
			wording.Number(p.Capacity), wording.Number(a.Min), wording.Number(a.Max)), []string{"adaptive"}})
	}
	return found
}

func queue(q *quotav1.Queue) []Violation {
	if q.Aqm == quotav1.Aqm_POLICE {
		return nil
	}
	target, wait := q.DelayTarget.AsDuration(), q.MaxWait.AsDuration()
	if target > wait {
		return []Violation{{"queue.delay_target",
			fmt.Sprintf("%s must not be above max_wait, which is %s", target, wait), []string{"queue"}}}
	}
	return nil
}

func limit(l *quotav1.Limit) []Violation {
	found := append(numbers("", l, l.Quota != nil), queue(l.Queue)...)
	found = append(found, zone(l)...)
	found = append(found, limitPools(l.Pools)...)
	found = append(found, twice("classes", l.Classes)...)
	if l.Key == quotav1.Key_TENANT && len(l.Overrides) > 0 {
		found = append(found, Violation{"overrides", "name clients, but key TENANT counts all clients together",
			[]string{"key"}})
	}
	if l.Key == quotav1.Key_TENANT && l.Identity != "" {
		found = append(found, Violation{"identity", "distinguishes clients, but key TENANT counts all clients together",
			[]string{"key"}})
	}
	for i, p := range l.Plans {
		found = append(found, numbersOf(fmt.Sprintf("plans[%d].", i), p.Rate, p.Burst)...)
	}
	for i, o := range l.Overrides {
		prefix := fmt.Sprintf("overrides[%d].", i)
		switch {
		case l.Quota != nil:
			found = append(found, amount(prefix, o)...)
		case l.Concurrency > 0 && o.Concurrency == 0:
			found = append(found, Violation{prefix + "concurrency", "missing: the limit has a concurrency",
				[]string{"concurrency"}})
		case l.Concurrency == 0 && o.Concurrency > 0:
			found = append(found, Violation{prefix + "concurrency", "must be left out: the limit has a rate",
				[]string{"rate"}})
		default:
			found = append(found, numbers(prefix, o, false)...)
		}
	}
	return found
}

// zone refuses a time zone that this coordinator does not know, since it computes the periods.
func zone(l *quotav1.Limit) []Violation {
	c, err := resource.LimitConfig(l)
	if err != nil || c.Quota == nil {
		return nil // gateways say what is wrong
	}
	if _, err := calendar.NewPeriods(c.Quota.Calendar); err != nil {
		return []Violation{refusal(err)}
	}
	return nil
}

// amount is for an override of a limit with a quota.
func amount(prefix string, o *quotav1.InlineOverride) []Violation {
	switch {
	case o.Amount == 0:
		return []Violation{{prefix + "amount", "missing: the limit has a quota", []string{"quota"}}}
	case o.Rate != "":
		return []Violation{{prefix + "rate", "must be left out: the limit has a quota", []string{"quota"}}}
	}
	return nil
}

func numbers(prefix string, of resource.Numbers, quota bool) []Violation {
	switch {
	case (quota || of.GetConcurrency() > 0) && of.GetRate() == "":
		return nil // gateways say what is wrong
	case quota:
		return []Violation{{Field: prefix + "rate", Message: "must be left out: none beside a quota"}}
	case of.GetConcurrency() > 0: // a gateway sees no 0
		return []Violation{{Field: prefix + "rate", Message: "must be left out: none beside a concurrency"}}
	}
	return numbersOf(prefix, of.GetRate(), of.GetBurst())
}

func numbersOf(prefix, rate string, burst float64) (found []Violation) {
	switch _, err := resource.ParseRate(rate); {
	case rate == "":
		found = append(found, Violation{Field: prefix + "rate",
			Message: "missing: a limit has a rate, such as 100/s, a concurrency or a quota"})
	case err != nil:
		found = append(found, Violation{Field: prefix + "rate", Message: err.Error()})
	}
	if burst > 0 && burst < 1 {
		found = append(found, Violation{Field: prefix + "burst",
			Message: fmt.Sprintf("%s %s", wording.Number(burst), resource.SmallBurst)})
	}
	return found
}

func limitPools(pools []string) []Violation {
	var found []Violation
	for i, p := range pools {
		field := fmt.Sprintf("pools[%d]", i)
		switch _, err := resource.Parse("pools/" + p); {
		case strings.HasPrefix(p, "pools/"):
			found = append(found, Violation{Field: field,
				Message: fmt.Sprintf("write %s without pools/", wording.Quote(p))})
		case err != nil:
			found = append(found, Violation{Field: field,
				Message: fmt.Sprintf("%s is not the name of a pool", wording.Quote(p))})
		}
	}
	return append(found, twice("pools", pools)...)
}

// twice are the violations by names that a list has already.
func twice(list string, names []string) (found []Violation) {
	seen := make(map[string]bool)
	for i, name := range names {
		if seen[name] {
			found = append(found, Violation{Field: fmt.Sprintf("%s[%d]", list, i),
				Message: wording.Quote(name) + " is named twice"})
		}
		seen[name] = true
	}
	return found
}
