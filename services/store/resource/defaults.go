package resource

import (
	"cmp"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/titrate/titrate/control/config"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/wording"
)

// The alpha of alpha-fairness. control/config has the other defaults.
const (
	DefaultAlpha = 1.0
	MinAlpha     = .1
	MaxAlpha     = 10
)

// FillDefaults writes the defaults of the API into the fields of m that are unset. So what
// is stored and shown is what is in force (a limit's burst: see [DefaultBurst]). A quota's
// weight stays absent, for it follows the tenant's, and so does the weight of a tenant with a plan. It is idempotent.
func FillDefaults(m Message) {
	switch m := m.(type) {
	case *quotav1.Pool:
		fillPool(m)
	case *quotav1.Plan:
		m.Weight = cmp.Or(m.Weight, config.DefaultWeight)
	case *quotav1.Tenant:
		if m.Plan == "" {
			m.Weight = cmp.Or(m.Weight, config.DefaultWeight)
		}
	case *quotav1.Quota:
		orEnum(&m.Mode, quotav1.Mode_ENFORCE)
	case *quotav1.Limit:
		orEnum(&m.Mode, quotav1.Mode_ENFORCE)
		orEnum(&m.Key, quotav1.Key_CLIENT)
		if m.Queue == nil {
			m.Queue = &quotav1.Queue{Aqm: quotav1.Aqm_POLICE}
		}
		fillQueue(m.Queue)
		fillQuota(m.Quota)
		fillBursts(m)
	case *quotav1.Override:
		if m.Burst == 0 && m.Rate != "" && m.Concurrency == 0 && m.Amount == 0 {
			m.Burst = DefaultBurst(m.Rate)
		}
	}
}

// GivenZero says what is wrong with a number that is given as 0, where a number that is left out has
// another default: 0 would silently become that. It is "" for all other fields.
func GivenZero(d protoreflect.FieldDescriptor) string {
	switch d.FullName() {
	case "titrate.quota.v1alpha1.Limit.burst", "titrate.quota.v1alpha1.InlineOverride.burst",
		"titrate.quota.v1alpha1.Override.burst", "titrate.quota.v1alpha1.LimitPlan.burst":
		return SmallBurst
	case "titrate.quota.v1alpha1.Plan.weight":
		return "must be above 0; left out it is 1"
	case "titrate.quota.v1alpha1.Tenant.weight":
		return "must be above 0; left out it follows the plan, or is 1"
	case "titrate.quota.v1alpha1.Queue.max_requests":
		return fmt.Sprintf("must be at least 1; left out it is %d, and aqm POLICE lets no request wait",
			config.DefaultMaxRequests)
	case "titrate.quota.v1alpha1.Pool.alpha":
		return fmt.Sprintf("must be %s to %d; left out it is 1", wording.Number(MinAlpha), MaxAlpha)
	}
	return ""
}

// SmallBurst says what is wrong with a burst below 1.
const SmallBurst = "must be at least 1, or no request ever passes; left out it is the amount of the rate"

func fillBursts(l *quotav1.Limit) {
	if l.Quota != nil {
		return
	}
	if l.Burst == 0 && l.GetConcurrency() == 0 {
		l.Burst = DefaultBurst(l.GetRate())
	}
	for _, o := range l.GetOverrides() {
		if o.GetBurst() == 0 && o.GetConcurrency() == 0 {
			o.Burst = DefaultBurst(o.GetRate())
		}
	}
	for _, p := range l.GetPlans() {
		p.Burst = cmp.Or(p.Burst, DefaultBurst(p.GetRate()))
	}
}

func fillQuota(q *quotav1.CalendarQuota) {
	if q == nil {
		return
	}
	orEnum(&q.Per, quotav1.CalendarQuota_MONTH)
	orEnum(&q.OnLoss, quotav1.CalendarQuota_OPEN)
	q.Zone = cmp.Or(q.Zone, "UTC")
	if c, err := calendarQuota(q); err == nil {
		q.StartsOn = c.Calendar.Start()
	}
}

func fillPool(p *quotav1.Pool) {
	orEnum(&p.Sharing, quotav1.Sharing_MAX_MIN)
	orEnum(&p.Guarantee, quotav1.Guarantee_MINIMUM)
	orEnum(&p.OnLoss, quotav1.OnLoss_FREEZE)
	if p.Alpha == 0 { // a MAX_MIN pool keeps it for later
		p.Alpha = DefaultAlpha
	}
	if p.Queue == nil {
		p.Queue = &quotav1.Queue{}
	}
	fillQueue(p.Queue)
}

// fillQueue leaves the numbers of a POLICE queue alone: it holds nothing.
func fillQueue(q *quotav1.Queue) {
	orEnum(&q.Aqm, quotav1.Aqm_VARIABLE_STRUCTURE)
	if q.Aqm == quotav1.Aqm_POLICE {
		return
	}
	if q.DelayTarget == nil {
		q.DelayTarget = durationpb.New(config.DefaultDelayTarget)
	}
	if q.MaxWait == nil {
		q.MaxWait = durationpb.New(config.DefaultMaxWait)
	}
	if q.MaxRequests == 0 {
		q.MaxRequests = config.DefaultMaxRequests
	}
}

func orEnum[E ~int32](e *E, value E) {
	if *e == 0 {
		*e = value
	}
}
