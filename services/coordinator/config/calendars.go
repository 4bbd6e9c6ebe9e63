package config

import (
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

// Terms returns what is configured for a key of a calendar quota: by a limit of its tenant, else of all tenants.
func (c *Cache) Terms(k booking.Key) (booking.Terms, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.quotas["tenants/"+k.Tenant+"/limits/"+k.Limit]
	if l == nil && c.resources["tenants/"+k.Tenant+"/limits/"+k.Limit] == nil {
		l = c.quotas["tenants/"+resource.AnyTenant+"/limits/"+k.Limit]
	}
	now := config.InstantOf(time.Now())
	if l == nil || l.Until != 0 && l.Until <= now || l.Mode == config.Off {
		return booking.Terms{}, false
	}
	return booking.Terms{Amount: calendar.UnitsOf(l.AmountOf(k.Client, now)), Calendar: l.Quota.Calendar,
		Soft: l.Quota.Soft}, true
}

// Calendars returns the calendars in use, in no order.
func (c *Cache) Calendars() (used []config.Calendar) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.quotas {
		if of := l.Quota.Calendar; !slices.Contains(used, of) {
			used = append(used, of)
		}
	}
	return used
}
