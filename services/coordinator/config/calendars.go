package config

import (
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/booking"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
)

// calendarQuotas are the limits with a calendar quota, by name.
type calendarQuotas map[string]*config.Limit

// note takes in a batch; resources are those after it.
func (q *calendarQuotas) note(b store.Batch, resources map[string]*quotav1.Resource) {
	if *q == nil || b.Reset {
		*q = calendarQuotas{}
		for name, r := range resources {
			q.set(name, r)
		}
		return
	}
	for _, r := range b.Resources {
		q.set(resource.Name(r), r)
	}
	for _, name := range b.Deleted {
		delete(*q, name)
	}
}

func (q *calendarQuotas) set(name string, r *quotav1.Resource) {
	delete(*q, name)
	if r.GetLimit().GetQuota() == nil {
		return
	}
	if l, err := resource.LimitConfig(r.GetLimit()); err == nil { // else agents leave it out and say why
		(*q)[name] = &l
	}
}

// Terms returns what is configured for a key of a calendar quota: by a limit of its tenant, else of the tenant's plan,
// else of all tenants. What has lapsed counts as absent.
func (c *Cache) Terms(k booking.Key) (booking.Terms, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := config.InstantOf(time.Now())
	l := c.quotaOf(k.Tenant, k.Limit, now)
	if l == nil || l.Mode == config.Off {
		return booking.Terms{}, false
	}
	amount := l.AmountOf(k.Client, now)
	own := c.resources["tenants/"+k.Tenant+"/limits/"+k.Limit+"/overrides/"+resource.ClientID(k.Client)].GetOverride()
	if _, inline := l.OverrideAt(k.Client, now); !inline && own.GetAmount() > 0 && !resource.IsOver(own, now.Time()) {
		amount = own.GetAmount()
	}
	out := booking.Terms{Amount: calendar.UnitsOf(amount), Calendar: l.Quota.Calendar, Soft: l.Quota.Soft}
	for _, r := range c.resources["tenants/"+k.Tenant].GetTenant().GetResets() {
		if r.GetLimit() == k.Limit && r.GetClient() == k.Client {
			out.Reset = config.InstantOf(r.GetTime().AsTime())
		}
	}
	return out, true
}

// quotaOf returns the limit of a name that holds for a tenant; nil: there is none, or it has no calendar quota.
func (c *Cache) quotaOf(tenant, limit string, now config.Instant) *config.Limit {
	parents := []string{"tenants/" + tenant, "", "tenants/" + resource.AnyTenant}
	if plan := c.resources["tenants/"+tenant].GetTenant().GetPlan(); plan != "" {
		parents[1] = "plans/" + plan
	}
	for _, parent := range parents {
		name := parent + "/limits/" + limit
		if r := c.resources[name].GetLimit(); r != nil && (r.GetUntil() == nil ||
			!config.InstantOf(r.GetUntil().AsTime()).Over(now)) {
			return c.quotas[name]
		}
	}
	return nil
}

// Calendars returns the calendars in use, in order: of more than there may be the same are left out each time.
func (c *Cache) Calendars() []config.Calendar {
	c.mu.Lock()
	defer c.mu.Unlock()
	used := map[config.Calendar]struct{}{}
	for _, l := range c.quotas {
		used[l.Quota.Calendar] = struct{}{}
	}
	return slices.SortedFunc(maps.Keys(used), booking.CompareCalendars)
}
