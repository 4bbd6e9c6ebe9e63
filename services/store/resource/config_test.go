package resource

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/titrate/titrate/control/config"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// Laws, policies and modes have the same names in the API and in control/config.
func TestNamesAreThoseOfTheAPI(t *testing.T) {
	same(t, "Aqm", quotav1.Aqm_name, config.Laws())
	same(t, "OnLoss", quotav1.OnLoss_name, config.OnLosses())
	same(t, "Mode", quotav1.Mode_name, config.Modes())
}

func same[T fmt.Stringer](t *testing.T, what string, api map[int32]string, values []T) {
	t.Helper()
	known := map[string]bool{}
	for _, v := range values {
		known[v.String()] = true
	}
	for number, name := range api {
		if number != 0 && !known[name] {
			t.Errorf("%s has %s, which control/config does not know", what, name)
		}
		delete(known, name)
	}
	if len(known) > 0 {
		t.Errorf("%s does not have %v of control/config", what, known)
	}
}

// notForGateways are fields that gateways need not know.
var notForGateways = map[string]bool{
	"etag": true, "update_time": true, "status": true, "set": true, "display_name": true,
	// The coordinator divides pools.
	"sharing": true, "alpha": true, "guarantee": true, "adaptive.min": true, "adaptive.max": true,
	"Quota.weight":      true,
	"Limit.precision":   true, // they do, but a limit with a queue has none: TestPrecisionReachesGateways
	"Limit.concurrency": true, // likewise: TestConcurrencyReachesGateways
}

// Each field of a resource makes a difference to gateways. See CONTRIBUTING.md, "Adding a
// field to a limit".
func TestEveryFieldReachesGateways(t *testing.T) {
	reaches(t, &quotav1.Pool{Name: "pools/a", Capacity: 1, Queue: &quotav1.Queue{}}, PoolConfig)
	reaches(t, &quotav1.Tenant{Name: "tenants/a"}, TenantConfig)
	reaches(t, &quotav1.Quota{Name: "tenants/a/quotas/p"}, QuotaConfig)
	reaches(t, &quotav1.Limit{Name: "tenants/a/limits/l", Rate: "1/s", Queue: &quotav1.Queue{}}, LimitConfig)
}

func TestConcurrencyReachesGateways(t *testing.T) {
	l := &quotav1.Limit{Name: "tenants/a/limits/l", Concurrency: 20,
		Overrides: []*quotav1.InlineOverride{{Client: "c", Concurrency: 3}}}
	c, err := LimitConfig(l)
	if err != nil || c.Concurrency != 20 || c.Overrides["c"].Concurrency != 3 || c.Rate != 0 || c.Burst != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range []*quotav1.Limit{
		{Name: l.Name, Concurrency: 20, Rate: "1/s"}, {Name: l.Name, Concurrency: -1},
		{Name: l.Name, Concurrency: 20, Strict: true}, {Name: l.Name, Concurrency: 20, Queue: &quotav1.Queue{}},
		{Name: l.Name, Concurrency: 20, Overrides: []*quotav1.InlineOverride{{Client: "c", Rate: "1/s"}}},
	} {
		if c, err := LimitConfig(bad); err == nil {
			t.Errorf("%+v is taken as %+v", bad, c)
		}
	}
}

func TestCalendarQuotaReachesGateways(t *testing.T) {
	l := &quotav1.Limit{Name: "tenants/a/limits/l", Quota: &quotav1.CalendarQuota{Amount: 20,
		Per: quotav1.CalendarQuota_WEEK, Zone: "Europe/Berlin", StartsOn: "SUN", Soft: []float64{.5, 1},
		OnLoss: quotav1.CalendarQuota_CLOSED}, Overrides: []*quotav1.InlineOverride{{Client: "c", Amount: 3}}}
	FillDefaults(l)
	c, err := LimitConfig(l)
	want := config.CalendarQuota{Amount: 20, Calendar: config.Calendar{Per: config.Week, Zone: "Europe/Berlin", StartsOn: 7},
		Soft: []float64{.5, 1}, OnLoss: config.RefuseOwing}
	if err != nil || !reflect.DeepEqual(*c.Quota, want) || c.Overrides["c"].Amount != 3 || c.Rate != 0 || c.Burst != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	plain := &quotav1.Limit{Name: l.Name, Quota: &quotav1.CalendarQuota{Amount: 20}}
	if FillDefaults(plain); plain.Quota.GetZone() != "UTC" || plain.Quota.GetStartsOn() != "1" || plain.GetBurst() != 0 {
		t.Errorf("%v", plain)
	}
	q := &quotav1.CalendarQuota{Amount: 20}
	for _, bad := range []*quotav1.Limit{
		{Name: l.Name, Quota: q, Rate: "1/s"}, {Name: l.Name, Quota: q, Concurrency: 3}, {Name: l.Name, Quota: q, Burst: 2},
		{Name: l.Name, Quota: q, Strict: true}, {Name: l.Name, Quota: q, Queue: &quotav1.Queue{}},
		{Name: l.Name, Quota: q, Precision: quotav1.Precision_EXACT}, {Name: l.Name, Quota: &quotav1.CalendarQuota{}},
		{Name: l.Name, Quota: &quotav1.CalendarQuota{Amount: 1, StartsOn: "MON"}},
		{Name: l.Name, Quota: &quotav1.CalendarQuota{Amount: 1, Soft: []float64{.8, .8}}},
		{Name: l.Name, Quota: q, Overrides: []*quotav1.InlineOverride{{Client: "c", Rate: "1/s"}}},
		{Name: l.Name, Rate: "1/s", Overrides: []*quotav1.InlineOverride{{Client: "c", Rate: "1/s", Amount: 2}}},
	} {
		if c, err := LimitConfig(bad); err == nil {
			t.Errorf("%+v is taken as %+v", bad, c)
		}
	}
}

func TestRequestedRateReachesGateways(t *testing.T) {
	of := func(least, most string) *quotav1.Limit {
		return &quotav1.Limit{Name: "tenants/a/limits/l", Rate: "10/min", Burst: 20,
			RequestedRate: &quotav1.RequestedRate{Least: least, Most: most}}
	}
	c, err := LimitConfig(of("0.5/min", "6000/h"))
	if want := (config.RateBounds{Least: .5 / 60, Most: 6000. / 3600, Per: 3600}); err != nil || c.RequestedRate != want {
		t.Errorf("%+v, %v", c.RequestedRate, err)
	}
	for bad, want := range map[*quotav1.Limit]string{
		of("", "100/min"): "requested_rate.least is \"\", want a rate with its unit", of("1/min", ""): "requested_rate.most is \"\"",
		of("11/min", "100/min"): "requested_rate.least is 0.1833/s, want above 0, at most the limit's own rate, 0.1667/s",
		of("1/min", "9/min"):    "requested_rate.most is 0.15/s", of("0/s", "9/min"): "requested_rate.least is 0/s",
		of("1/min", "0"):     "requested_rate.most is \"0\"",
		of("1/h", "100/min"): "give the limit a burst of at least 600",
	} {
		if _, err := LimitConfig(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", bad.RequestedRate, err, want)
		}
	}
}

func TestPrecisionReachesGateways(t *testing.T) {
	l := &quotav1.Limit{Name: "tenants/a/limits/l", Rate: "1/s"}
	for asked, want := range map[quotav1.Precision]config.Precision{quotav1.Precision_PRECISION_UNSPECIFIED: config.Unstated,
		quotav1.Precision_LOCAL: config.Local, quotav1.Precision_EXACT: config.Exact} {
		l.Precision = asked
		if c, err := LimitConfig(l); err != nil || c.Precision != want {
			t.Errorf("%v: %v, %v", asked, c.Precision, err)
		}
	}
	l.Scope = quotav1.Scope_GLOBAL
	const alone = "scope is GLOBAL, want SITE, or a precision of EXACT beside it"
	for asked, want := range map[quotav1.Precision]string{quotav1.Precision_PRECISION_UNSPECIFIED: alone,
		quotav1.Precision_LOCAL: alone, quotav1.Precision_EXACT: "<nil>"} {
		l.Precision = asked
		if c, err := LimitConfig(l); fmt.Sprint(err) != want || err == nil && c.Scope != config.GlobalScope {
			t.Errorf("%v, GLOBAL: %v, %v, want %v", asked, c.Scope, err, want)
		}
	}
	l.Queue = &quotav1.Queue{}
	const want = "precision is EXACT, want LOCAL for a limit with a queue, or no queue"
	l.Precision = quotav1.Precision_EXACT
	if _, err := LimitConfig(l); err == nil || err.Error() != want {
		t.Errorf("with a queue: %v, want %s", err, want)
	}
}

func reaches[M Message, C any](t *testing.T, base M, read func(M) (C, error)) {
	t.Helper()
	plain, err := read(base)
	if err != nil {
		t.Fatal(err)
	}
	each(base.ProtoReflect().Descriptor(), "", func(name string, set func(protoreflect.Message)) {
		if strings.HasPrefix(name, "quota.") || // they do, without a rate: TestCalendarQuotaReachesGateways
			name == "scope" || // it does, with a precision: TestPrecisionReachesGateways
			strings.HasPrefix(name, "requested_rate.") || // they do, both of them: TestRequestedRateReachesGateways
			notForGateways[name] || notForGateways[KindOf(base).String()+"."+name] {
			return
		}
		m := proto.Clone(base).(M)
		set(m.ProtoReflect())
		if c, err := read(m); err != nil || reflect.DeepEqual(c, plain) {
			t.Errorf("%s.%s makes no difference to a gateway (%v)", KindOf(base), name, err)
		}
	})
}

// each visits the fields of a message, and those of its messages that are no lists.
func each(d protoreflect.MessageDescriptor, prefix string, visit func(string, func(protoreflect.Message))) {
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		name := prefix + string(f.Name())
		if below := f.Message(); below != nil && !f.IsList() &&
			strings.HasPrefix(string(below.FullName()), "titrate.") &&
			!strings.HasSuffix(string(below.Name()), "Status") {
			each(below, name+".", func(name string, set func(protoreflect.Message)) {
				visit(name, func(m protoreflect.Message) { set(m.Mutable(f).Message()) })
			})
			continue
		}
		visit(name, func(m protoreflect.Message) { m.Set(f, other(m, f)) })
	}
}

// other is a value of a field that is valid, and not the default.
func other(m protoreflect.Message, f protoreflect.FieldDescriptor) protoreflect.Value {
	if f.IsList() {
		list := m.NewField(f).List()
		if f.Message() == nil {
			list.Append(protoreflect.ValueOfString("some"))
		} else {
			list.Append(protoreflect.ValueOfMessage(map[protoreflect.Name]proto.Message{
				"overrides": &quotav1.InlineOverride{Client: "c", Rate: "7/s"},
				"plans":     &quotav1.LimitPlan{Plan: "gold", Rate: "7/s"},
				"resets":    &quotav1.Reset{Limit: "l", Client: "c", Time: &timestamppb.Timestamp{Seconds: 7}},
			}[f.Name()].ProtoReflect()))
		}
		return protoreflect.ValueOfList(list)
	}
	switch f.Kind() {
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(5)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(5)
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(2)
	case protoreflect.MessageKind:
		if f.Message().FullName() == "google.protobuf.Duration" {
			return protoreflect.ValueOfMessage(durationpb.New(2 * time.Second).ProtoReflect())
		}
		return m.NewField(f)
	}
	switch f.Name() {
	case "name":
		return protoreflect.ValueOfString(m.Get(f).String() + "x")
	case "rate":
		return protoreflect.ValueOfString("7/s")
	}
	return protoreflect.ValueOfString("some")
}
