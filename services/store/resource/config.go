package resource

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/titrate/titrate/control/config"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/wording"
)

// The only conversion of resources into what gateways have in force. The API asks it whether a resource is valid, the
// agent builds configurations with it. An error belongs to a field, mostly a *config.FieldError with its path within
// the resource.

// PoolConfig is a pool as gateways have it, valid and with its defaults filled in.
func PoolConfig(p *quotav1.Pool) (config.Pool, error) {
	ref, err := parseAs(p.GetName(), Pool)
	if err != nil {
		return config.Pool{}, err
	}
	out := config.Pool{
		Name: ref.ID, Capacity: p.GetCapacity(), HardExpiry: p.GetHardExpiry().AsDuration(),
		Adaptive: p.GetAdaptive() != nil, Cost: p.GetCost(),
	}
	if out.Queue, err = queueConfig(p.GetQueue()); err != nil {
		return out, err
	}
	if err := byName("on_loss", p.GetOnLoss(), &out.OnLoss); err != nil {
		return out, err
	}
	return out, out.Validate()
}

// TenantConfig is a tenant as gateways have it, without limits and quotas.
func TenantConfig(t *quotav1.Tenant) (config.Tenant, error) {
	ref, err := parseAs(t.GetName(), Tenant)
	if err != nil {
		return config.Tenant{}, err
	}
	out := config.Tenant{Name: ref.ID, Weight: t.GetWeight(), Plan: t.GetPlan()}
	for _, r := range t.GetResets() {
		out.Resets = append(out.Resets, config.Reset{Limit: r.GetLimit(), Client: r.GetClient(),
			At: config.InstantOf(r.GetTime().AsTime())})
	}
	switch {
	case out.Plan == "":
		out.Weight = cmp.Or(out.Weight, config.DefaultWeight)
	case ref.ID == AnyTenant:
		return out, &config.FieldError{Field: "plan", Value: out.Plan,
			Want: "none of tenants/-: what it has itself holds for all tenants"}
	}
	return out, out.Validate()
}

// PlanConfig is a plan as gateways have it, without limits and quotas.
func PlanConfig(p *quotav1.Plan) (config.Tenant, error) {
	ref, err := parseAs(p.GetName(), Plan)
	if err != nil {
		return config.Tenant{}, err
	}
	out := config.Tenant{Name: ref.ID, Weight: cmp.Or(p.GetWeight(), config.DefaultWeight)}
	return out, out.Validate()
}

// QuotaConfig is a quota as gateways have it. Whether its pool is there is another matter.
func QuotaConfig(q *quotav1.Quota) (config.Quota, error) {
	ref, err := parseAs(q.GetName(), Quota)
	if err != nil {
		return config.Quota{}, err
	}
	out := config.Quota{Pool: ref.ID, Guaranteed: q.GetGuaranteed(), Max: config.Unbounded}
	if out.Until, err = until(q.GetUntil()); err != nil {
		return out, err
	}
	if q.Max != nil {
		out.Max = q.GetMax()
	}
	if q.Weight != nil && q.GetWeight() == 0 { // it has its guarantee and no more
		out.Max = min(out.Max, out.Guaranteed)
	}
	if err := byName("mode", q.GetMode(), &out.Mode); err != nil {
		return out, err
	}
	return out, out.Validate()
}

// LimitConfig is a limit as gateways have it, with its bursts filled in.
func LimitConfig(l *quotav1.Limit) (config.Limit, error) {
	ref, err := parseAs(l.GetName(), Limit)
	if err != nil {
		return config.Limit{}, err
	}
	out := config.Limit{
		Name: ref.ID, Pools: l.GetPools(), Strict: l.GetStrict(), Identity: l.GetIdentity(), Classes: l.GetClasses(),
		Cost:  l.GetCost(),
		Queue: config.Queue{Law: config.Police},
	}
	if out.Quota, err = calendarQuota(l.GetQuota()); err != nil {
		return out, err
	}
	rb, err := numbers(l, out.Quota != nil)
	if err != nil {
		return out, err
	}
	out.Rate, out.Burst, out.Concurrency, out.Until = rb.Rate, rb.Burst, rb.Concurrency, rb.Until
	if out.PerTenant, err = perTenant(l.GetKey()); err != nil {
		return out, err
	}
	if l.GetQueue() != nil {
		if out.Queue, err = queueConfig(l.GetQueue()); err != nil {
			return out, err
		}
	}
	if err = byName("mode", l.GetMode(), &out.Mode); err != nil {
		return out, err
	}
	if err = byName("precision", l.GetPrecision(), &out.Precision); err != nil {
		return out, err
	}
	if err = byName("scope", l.GetScope(), &out.Scope); err != nil {
		return out, err
	}
	if out.Overrides, err = overrides(l.GetOverrides(), out.Quota != nil); err != nil {
		return out, err
	}
	if out.Plans, err = limitPlans(l.GetPlans()); err != nil {
		return out, err
	}
	if out.RequestedRate, err = rateBounds(l.GetRequestedRate()); err != nil {
		return out, err
	}
	return out, out.Validate()
}

// queueConfig fills in the defaults, nil being all of them. A queue that holds nothing has no numbers.
func queueConfig(q *quotav1.Queue) (out config.Queue, err error) {
	if err := byName("queue.aqm", q.GetAqm(), &out.Law); err != nil || out.Law == config.Police {
		return out, err
	}
	out.DelayTarget, out.MaxWait = q.GetDelayTarget().AsDuration(), q.GetMaxWait().AsDuration()
	out.MaxRequests = int(q.GetMaxRequests())
	return out.WithDefaults(), nil
}

func perTenant(k quotav1.Key) (bool, error) {
	switch k {
	case quotav1.Key_KEY_UNSPECIFIED, quotav1.Key_CLIENT:
		return false, nil
	case quotav1.Key_TENANT:
		return true, nil
	}
	return false, &config.FieldError{Field: "key", Value: k, Want: "CLIENT or TENANT, or a newer agent"}
}

// OverrideConfig is an override as gateways have it, and the limit and the client that it is for. Whether it fits the
// limit is another matter: [Judge].
func OverrideConfig(o *quotav1.Override) (Ref, config.RateBurst, error) {
	ref, err := parseAs(o.GetName(), Override)
	if err != nil {
		return ref, config.RateBurst{}, err
	}
	given := 0
	for _, is := range []bool{o.GetRate() != "", o.GetConcurrency() > 0, o.GetAmount() > 0} {
		if is {
			given++
		}
	}
	if given != 1 {
		return ref, config.RateBurst{}, &config.FieldError{Field: "rate", Value: wording.Quote(o.GetRate()),
			Want: "one of rate, concurrency and amount: what its limit has"}
	}
	rb, err := overrideNumbers(o, o.GetAmount() > 0)
	return ref, rb, err
}

// Judge decides which overrides may stand beside a limit. It is the one judge of the two forms of overrides: a client
// has numbers in the limit's own list, or in a resource.
type Judge struct {
	limit     string
	kind      config.LimitKind
	perTenant bool
	listed    map[string]bool // clients
}

// JudgeOf is the judge of a valid limit.
func JudgeOf(l *quotav1.Limit) *Judge {
	j := &Judge{limit: l.GetName(), perTenant: l.GetKey() == quotav1.Key_TENANT}
	switch {
	case l.GetConcurrency() > 0:
		j.kind = config.ConcurrencyLimit
	case l.GetQuota() != nil:
		j.kind = config.QuotaLimit
	}
	for _, o := range l.GetOverrides() {
		if j.listed == nil {
			j.listed = make(map[string]bool, len(l.GetOverrides()))
		}
		j.listed[o.GetClient()] = true
	}
	return j
}

// Alike reports whether the same kinds of overrides may stand beside two limits.
func (j *Judge) Alike(other *Judge) bool {
	return j.kind == other.kind && j.perTenant == other.perTenant
}

// Refuse returns an error if an override cannot stand beside the limit.
func (j *Judge) Refuse(o *quotav1.Override) error {
	ref, rb, err := OverrideConfig(o)
	if err != nil {
		return err
	}
	_, kind := config.OverrideOf(0, rb)
	switch {
	case j.perTenant:
		return fmt.Errorf("%s has key TENANT and counts all clients together: it has no overrides", j.limit)
	case j.listed[ref.Client()]:
		return fmt.Errorf("client %s has an override in the list of %s and one in %s: one of the two has to go",
			wording.Quote(ref.Client()), j.limit, o.GetName())
	case kind != j.kind:
		return fmt.Errorf("%s has %s, and %s has %s", j.limit, kindWords[j.kind], o.GetName(), kindWords[kind])
	}
	return nil
}

var kindWords = map[config.LimitKind]string{config.RateLimit: "a rate", config.ConcurrencyLimit: "a concurrency",
	config.QuotaLimit: "a quota"}

// overrideNumbers are the numbers of an override in either form.
func overrideNumbers(o interface {
	Numbers
	GetAmount() float64
}, quota bool) (config.RateBurst, error) {
	rb, err := numbers(o, quota)
	if rb.Amount = o.GetAmount(); err == nil && quota {
		err = rb.ValidateAmount("")
	}
	return rb, err
}

func overrides(list []*quotav1.InlineOverride, quota bool) (map[string]config.RateBurst, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := make(map[string]config.RateBurst, len(list))
	for i, o := range list {
		rb, err := overrideNumbers(o, quota)
		if err != nil {
			return nil, fmt.Errorf("overrides[%d] of client %s: %w", i, wording.Quote(o.GetClient()), err)
		}
		if _, twice := out[o.GetClient()]; twice {
			return nil, &config.FieldError{Field: fmt.Sprintf("overrides[%d].client", i),
				Value: wording.Quote(o.GetClient()), Want: "each client once; it is there twice"}
		}
		out[o.GetClient()] = rb
	}
	return out, nil
}

// limitPlans are the numbers of a limit by plan; nil: it has none.
func limitPlans(list []*quotav1.LimitPlan) (out map[string]config.RateBurst, err error) {
	for i, p := range list {
		rb := config.RateBurst{Burst: p.GetBurst()}
		if rb.Rate, err = ParseRate(p.GetRate()); err != nil {
			return nil, fmt.Errorf("plans[%d]: %w", i, err)
		}
		if _, twice := out[p.GetPlan()]; twice {
			return nil, &config.FieldError{Field: fmt.Sprintf("plans[%d].plan", i), Value: wording.Quote(p.GetPlan()),
				Want: "each plan once; it is there twice"}
		}
		if out == nil {
			out = make(map[string]config.RateBurst, len(list))
		}
		out[p.GetPlan()] = rb.WithDefaults()
	}
	return out, nil
}

// rateBounds are the bounds of the rate that a request states; zero for nil.
func rateBounds(r *quotav1.RequestedRate) (out config.RateBounds, err error) {
	if r == nil {
		return out, nil
	}
	read := func(field, text string, rate *float64) {
		amount, per, wrong := parseRate(text)
		if *rate, out.Per = amount/per, per; wrong != nil && err == nil {
			err = &config.FieldError{Field: field, Value: wording.Quote(text), Want: "a rate with its unit, as 10/min"}
		}
	}
	read("requested_rate.least", r.GetLeast(), &out.Least)
	read("requested_rate.most", r.GetMost(), &out.Most)
	return out, err
}

// Numbers are a limit or an override: both have a rate and a burst, or a concurrency, and hold until some time.
type Numbers interface {
	GetRate() string
	GetBurst() float64
	GetConcurrency() int64
	GetUntil() *timestamppb.Timestamp
}

// numbers returns the rate and burst, or the concurrency. Beside a quota there need not be either.
func numbers(of Numbers, quota bool) (rb config.RateBurst, err error) {
	rb.Burst, rb.Concurrency = of.GetBurst(), of.GetConcurrency()
	if rb.Until, err = until(of.GetUntil()); err != nil {
		return rb, err
	}
	if rb.Rate, err = ParseRate(of.GetRate()); rb.Concurrency == 0 && !quota {
		rb = rb.WithDefaults()
	} else if of.GetRate() == "" {
		err = nil
	}
	return rb, cmp.Or(err, rb.Validate())
}

// calendarQuota is a limit's quota as gateways have it, nil for none.
func calendarQuota(q *quotav1.CalendarQuota) (*config.CalendarQuota, error) {
	if q == nil {
		return nil, nil
	}
	out := &config.CalendarQuota{Amount: q.GetAmount(), Soft: q.GetSoft()}
	if err := byName("quota.per", q.GetPer(), &out.Calendar.Per); err != nil {
		return nil, err
	}
	if err := byName("quota.on_loss", q.GetOnLoss(), &out.OnLoss); err != nil {
		return nil, err
	}
	var err error
	out.Calendar, err = config.NewCalendar(out.Calendar.Per, q.GetZone(), q.GetStartsOn())
	return out, err
}

// QuotaText is a quota in words: 1000000 per MONTH (Europe/Berlin).
func QuotaText(q *quotav1.CalendarQuota) string {
	return fmt.Sprintf("%s per %s (%s)", wording.Number(q.GetAmount()), cmp.Or(q.GetPer(), quotav1.CalendarQuota_MONTH),
		cmp.Or(q.GetZone(), "UTC"))
}

// until returns the instant at which something lapses, 0 if nothing says it.
func until(t *timestamppb.Timestamp) (config.Instant, error) {
	if t == nil {
		return 0, nil
	}
	at := cmp.Or(config.InstantOf(t.AsTime()), 1) // 0 would be none
	return at, (config.RateBurst{Until: at}).Validate()
}

// byName sets a value by the name that it has in the API, which is the same in
// control/config. The unspecified one is the default.
func byName(field string, e protoreflect.Enum, to encoding.TextUnmarshaler) error {
	number := e.Number()
	if number == 0 {
		return to.UnmarshalText(nil)
	}
	name := strconv.Itoa(int(number))
	if known := e.Descriptor().Values().ByNumber(number); known != nil {
		name = string(known.Name())
	}
	err := to.UnmarshalText([]byte(name))
	if fault := new(config.FieldError); errors.As(err, &fault) {
		return &config.FieldError{Field: field, Value: fault.Value, Want: fault.Want + ", or a newer agent"}
	}
	return err
}

// parseAs takes apart a name that must be of a kind.
func parseAs(name string, k Kind) (Ref, error) {
	ref, err := Parse(name)
	if err == nil && ref.Kind != k {
		err = fmt.Errorf("%q is the name of a %s, want that of a %s",
			name, strings.ToLower(ref.Kind.String()), strings.ToLower(k.String()))
	}
	return ref, err
}
