package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/config/configtest"
)

// A name is what its value prints, and reads as that value; "" is the first.
func TestNames(t *testing.T) {
	names(t, "VARIABLE_STRUCTURE DROP_TAIL POLICE CODEL", config.Laws(), func(v *config.Law, s string) error {
		return v.UnmarshalText([]byte(s))
	})
	names(t, "FREEZE SAFE_RATE OPEN", config.OnLosses(), func(v *config.OnLoss, s string) error {
		return v.UnmarshalText([]byte(s))
	})
	names(t, "ENFORCE SHADOW OFF", config.Modes(), func(v *config.Mode, s string) error {
		return v.UnmarshalText([]byte(s))
	})
	if _, err := config.Law(9).MarshalText(); err == nil || config.Law(9).String() != "unknown" {
		t.Errorf("law 9 has the name %q, %v", config.Law(9), err)
	}
}

func names[T interface {
	~uint8
	fmt.Stringer
}](t *testing.T, want string, values []T, read func(*T, string) error) {
	t.Helper()
	if got := fmt.Sprint(values); got != "["+want+"]" {
		t.Errorf("names %s, want %s", got, want)
	}
	for i, v := range values {
		var back T
		if err := read(&back, v.String()); err != nil || back != v || int(v) != i {
			t.Errorf("%s reads as %v (%v)", v, back, err)
		}
	}
	zero := T(1)
	if err := read(&zero, ""); err != nil || zero != 0 {
		t.Errorf("no name reads as %v (%v)", zero, err)
	}
	var fault *config.FieldError
	if err := read(&zero, "LOUD"); !errors.As(err, &fault) || fault.Value != `"LOUD"` ||
		!strings.HasPrefix(fault.Want, values[0].String()) {
		t.Errorf("an unknown name: %v", err)
	}
}

// Each field comes back from JSON.
func TestEveryFieldTravels(t *testing.T) {
	travels[config.Config](t)
	travels[config.Pool](t)
	travels[config.Queue](t)
	travels[config.Tenant](t)
	travels[config.Quota](t)
	travels[config.Limit](t)
	travels[config.RateBurst](t)
}

func travels[T any](t *testing.T) {
	t.Helper()
	for name, want := range configtest.Fields[T]() {
		if q, ok := any(&want).(*config.Quota); ok && name != "Max" {
			q.Max = config.Unbounded
		}
		var got T
		b, err := json.Marshal(want)
		if err == nil {
			err = json.Unmarshal(b, &got)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%T.%s is lost in JSON: %s (%v)", want, name, b, err)
		}
	}
}

func TestUnboundedIsLeftOutOfJSON(t *testing.T) {
	b, err := json.Marshal(config.Quota{Pool: "p", Max: math.Inf(1)})
	if err != nil || string(b) != `{"pool":"p"}` {
		t.Errorf("%s, %v", b, err)
	}
}

// What a newer agent may send is left out limit by limit, and said.
func TestUnknownIsLeftOut(t *testing.T) {
	in := `{"pools":[{"name":"api","capacity":3}],
		"defaults":[{"queue":{"law":"QUIET"},"name":"all"}],
		"tenants":[{"name":"acme",
		"limits":[{"mode":"LOUD","name":"loud"},{"name":"kept"},{"name":"daily","days":["monday"]},
			{"name":"deep","queue":{"ecn":true}},{"both":1,"mode":"LOUD","name":"both"}],
		"quotas":[{"pool":"api","mean":4},{"mode":"LOUD","pool":"db"}]}]}`
	var c config.Config
	if err := json.Unmarshal([]byte(in), &c); err != nil {
		t.Fatal(err)
	}
	want := [][3]string{
		{"-", "all", `defaults.limits[all].queue.law is "QUIET"`},
		{"acme", "loud", `tenants[acme].limits[loud].mode is "LOUD", want ENFORCE, SHADOW or OFF, or a newer gateway`},
		{"acme", "daily", `tenants[acme].limits[daily].days is a field that this build does not know`},
		{"acme", "deep", `limits[deep].ecn is a field`},
		{"acme", "both", `limits[both].mode is "LOUD"`},
		{"acme", "quotas/api", `quotas[api].mean is a field`},
		{"acme", "quotas/db", `quotas[db].mode is "LOUD"`},
	}
	got := c.LeaveOut()
	if len(got) != len(want) {
		t.Fatalf("left out %v", got)
	}
	for i, w := range want {
		if l := got[i]; l.Tenant != w[0] || l.Limit != w[1] || !strings.Contains(l.Reason, w[2]) {
			t.Errorf("left out %+v, want %v", l, w)
		}
	}
	if a := c.Tenants[0]; len(a.Limits) != 1 || a.Limits[0].Name != "kept" || len(a.Quotas) != 0 ||
		c.Validate() != nil {
		t.Errorf("left %+v: %v", a, c.Validate())
	}
}

// An unknown name in a pool refuses the configuration, as a fault of it and not of its
// form; an unknown field does not.
func TestUnknownInAPool(t *testing.T) {
	for in, want := range map[string]string{
		`{"pools":[{"on_loss":"WISHFUL","name":"api","capacity":3}]}`:    `pools[api].on_loss is "WISHFUL"`,
		`{"pools":[{"name":"api","capacity":3,"queue":{"law":"LIFO"}}]}`: `pools[api].queue.law is "LIFO"`,
		`{"pools":[{"name":"api","capacity":3,"colour":1}]}`:             ``,
		`{"zone":2,"pools":[{"name":"api","capacity":3}]}`:               ``,
	} {
		var c config.Config
		if err := json.Unmarshal([]byte(in), &c); err != nil {
			t.Fatal(err)
		}
		err := c.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}

// A part that is checked alone names its fields without the path to the part.
func TestPartsByThemselves(t *testing.T) {
	for want, err := range map[string]error{
		"capacity is 0":         (&config.Pool{}).Validate(),
		"on_loss is 7":          (&config.Pool{Capacity: 1, OnLoss: 7}).Validate(),
		"queue.max_wait is 1ns": (&config.Pool{Capacity: 1, Queue: config.Queue{MaxWait: 1}}).Validate(),
		"weight is -1":          (&config.Tenant{Weight: -1}).Validate(),
		"max is 1":              (&config.Quota{Guaranteed: 2, Max: 1}).Validate(),
		"overrides[v].rate is -1": (&config.Limit{
			Overrides: map[string]config.RateBurst{"v": {Rate: -1}}}).Validate(),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// What is not valid is taken out part by part; what is left applies, and the
// caller's lists are as they were.
func TestLeaveOutUnheld(t *testing.T) {
	flight, rate := config.Limit{Name: "flight", Concurrency: 2}, config.Limit{Name: "rate", Rate: 1}
	c := &config.Config{Defaults: []config.Limit{flight}, Tenants: []config.Tenant{{Name: "a",
		Limits: []config.Limit{rate, flight}}, {Name: "b", Limits: []config.Limit{rate}}}}
	d := &config.Delta{Tenants: slices.Clone(c.Tenants)}
	left := c.LeaveOutUnheld()
	if len(left) != 2 || left[0].Tenant != config.DefaultTenant || left[1].Tenant != "a" || left[1].Limit != "flight" ||
		!strings.Contains(left[1].Reason, "rate limit service") {
		t.Errorf("%+v", left)
	}
	if len(c.Defaults) != 0 || len(c.Tenants) != 2 || len(c.Tenants[0].Limits) != 1 {
		t.Errorf("%+v", c)
	}
	if left := d.LeaveOutUnheld(); len(left) != 1 || len(d.Tenants) != 2 || len(d.Tenants[0].Limits) != 1 {
		t.Errorf("%+v, %+v", left, d)
	}
}

func TestLeaveOut(t *testing.T) {
	c := &config.Config{
		Pools: []config.Pool{{Name: "api", Capacity: 10}},
		Tenants: []config.Tenant{{Name: "a", Limits: []config.Limit{
			{Name: "l", Rate: 1}, {Name: "l", Rate: 2}, {Name: "minus", Rate: -1},
		}}},
	}
	for i := range config.MaxLimits {
		c.Tenants[0].Limits = append(c.Tenants[0].Limits, config.Limit{Name: fmt.Sprint("n", i), Rate: 1})
	}
	c.Tenants[0].Quotas = []config.Quota{{Pool: "nil"}, {Pool: "api", Max: 3}}
	c.Tenants = append(c.Tenants,
		config.Tenant{Name: "a"}, config.Tenant{Name: "heavy", Weight: -1}, config.Tenant{Name: "good"})
	limits := slices.Clone(c.Tenants[0].Limits)
	list := c.Tenants[0].Limits
	want := []string{"a l", "a minus", "a n61", "a n62", "a n63", "a quotas/nil", "a ", "heavy "}
	var got []string
	for _, l := range c.LeaveOut() {
		got = append(got, l.Tenant+" "+l.Limit)
		if l.Reason == "" {
			t.Errorf("%s has no reason", l.Limit)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("left out %q, want %q", got, want)
	}
	if err := c.Validate(); err != nil {
		t.Errorf("what is left is not valid: %v", err)
	}
	if len(c.Tenants) != 2 || len(c.Tenants[0].Limits) != config.MaxLimits-2 || len(c.Tenants[0].Quotas) != 1 {
		t.Errorf("left %d tenants, %d limits, %d quotas",
			len(c.Tenants), len(c.Tenants[0].Limits), len(c.Tenants[0].Quotas))
	}
	if !reflect.DeepEqual(list, limits) {
		t.Error("the caller's list has changed")
	}
	if again := c.LeaveOut(); again != nil {
		t.Errorf("again %v", again)
	}
}
