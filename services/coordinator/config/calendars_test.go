package config_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/titrate/titrate/control/calendar"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/booking"
	"github.com/titrate/titrate/services/coordinator/config"
	"github.com/titrate/titrate/services/store"
)

// Where more calendars are in use than there may be, the same ones are left out each time.
func TestCalendarsHaveAnOrder(t *testing.T) {
	c := config.New()
	b := store.Batch{Revision: 1, Reset: true}
	for n := range int32(28) {
		b.Resources = append(b.Resources, &quotav1.Resource{Kind: &quotav1.Resource_Limit{Limit: &quotav1.Limit{
			Name:  fmt.Sprintf("tenants/-/limits/l%d", 28-n),
			Quota: &quotav1.CalendarQuota{Amount: 1, Per: quotav1.CalendarQuota_MONTH, StartsOn: fmt.Sprint(n + 1)}}}})
	}
	c.Apply(b)
	if got := c.Calendars(); len(got) != 28 || !slices.IsSortedFunc(got, booking.CompareCalendars) {
		t.Errorf("%v", got)
	}
}

// A quota of a tenant's own limit comes before one of its plan, and that before one of all tenants. A limit that has
// lapsed, and one without a quota, are followed as gateways follow them.
func TestTermsFollowPlans(t *testing.T) {
	limit := func(parent string, amount float64, until *timestamppb.Timestamp) *quotav1.Resource {
		l := &quotav1.Limit{Name: parent + "/limits/monthly", Until: until, Rate: "10/s"}
		if amount > 0 {
			l.Rate, l.Quota = "", &quotav1.CalendarQuota{Amount: amount}
		}
		return &quotav1.Resource{Kind: &quotav1.Resource_Limit{Limit: l}}
	}
	of := func(name, plan string) *quotav1.Resource {
		return &quotav1.Resource{Kind: &quotav1.Resource_Tenant{Tenant: &quotav1.Tenant{Name: "tenants/" + name, Plan: plan}}}
	}
	c := config.New()
	c.Apply(store.Batch{Revision: 1, Reset: true, Resources: []*quotav1.Resource{
		{Kind: &quotav1.Resource_Plan{Plan: &quotav1.Plan{Name: "plans/gold"}}},
		of("own", "gold"), of("planned", "gold"), of("none", ""), of("rated", "gold"), of("lapsed", "gold"),
		limit("plans/gold", 2, nil), limit("tenants/own", 3, nil), limit("tenants/rated", 0, nil),
		limit("tenants/lapsed", 4, timestamppb.New(time.Now().Add(-time.Hour))), limit("tenants/-", 1, nil),
		{Kind: &quotav1.Resource_Override{Override: &quotav1.Override{Name: "tenants/own/limits/monthly/overrides/x%20y",
			Amount: 9}}},
	}})
	if terms, _ := c.Terms(booking.Key{Tenant: "own", Limit: "monthly", Client: "x y"}); terms.Amount != calendar.UnitsOf(9) {
		t.Errorf("the override's amount is %v", terms.Amount)
	}
	for tenant, want := range map[string]float64{"own": 3, "planned": 2, "none": 1, "unknown": 1, "rated": 0, "lapsed": 2} {
		terms, ok := c.Terms(booking.Key{Tenant: tenant, Limit: "monthly", Client: "a"})
		if ok != (want > 0) || terms.Amount != calendar.UnitsOf(want) {
			t.Errorf("tenant %s: the amount is %v (%v), want %v", tenant, terms.Amount, ok, want)
		}
	}
}
