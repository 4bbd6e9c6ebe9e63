package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// Ceiling is the most that an editor may give its tenants. A field that is absent bounds
// nothing. It bounds what is written: numbers, and modes that would enforce none of them.
type Ceiling struct {
	Rate       string   `yaml:"rate"`       // of a limit, its overrides and plans, with its unit: 1000/s
	Burst      *float64 `yaml:"burst"`      // of a limit, its overrides and plans, cost units
	Weight     *float64 `yaml:"weight"`     // of a tenant and of a quota; then a quota must be enforced
	Guaranteed *float64 `yaml:"guaranteed"` // of a quota, cost units per second; then it must be enforced
	// Max of a quota, cost units per second; then a quota must have one and be enforced.
	Max *float64 `yaml:"max"`
}

// check reports what is wrong with the ceiling of a role, nil for an absent one.
func (c *Ceiling) check(role Role) error {
	if c == nil {
		return nil
	}
	if role != Editor {
		return errors.New("only an editor has a ceiling")
	}
	if *c == (Ceiling{}) {
		return errors.New("ceiling is empty: want rate, burst, weight, guaranteed or max in it")
	}
	if c.Rate != "" {
		if _, err := resource.ParseRate(c.Rate); err != nil {
			return fmt.Errorf("ceiling: rate: %w", err)
		}
	}
	for name, most := range c.numbers() {
		if most != nil && !(*most >= 0) {
			return fmt.Errorf("ceiling: %s %v: want 0 or more", name, *most)
		}
	}
	return nil
}

func (c *Ceiling) numbers() map[string]*float64 {
	return map[string]*float64{"burst": c.Burst, "weight": c.Weight, "guaranteed": c.Guaranteed, "max": c.Max}
}

// String is the ceiling for people, "" for none.
func (c *Ceiling) String() string {
	if c == nil {
		return ""
	}
	var out []string
	if c.Rate != "" {
		out = append(out, "rate "+c.Rate)
	}
	numbers := c.numbers()
	for _, name := range []string{"burst", "weight", "guaranteed", "max"} {
		if most := numbers[name]; most != nil {
			out = append(out, fmt.Sprintf("%s %g", name, *most))
		}
	}
	return strings.Join(out, ", ")
}

// over says what of a resource is above the ceiling, "" if nothing is. old is stored now, nil for nothing: a plan
// bounds its tenants, so that a tenant's plan stays.
func (c *Ceiling) over(m, old resource.Message) string {
	if c == nil {
		return ""
	}
	switch m := m.(type) {
	case *quotav1.Limit:
		return c.limit(m)
	case *quotav1.Override:
		return c.override(m)
	case *quotav1.Quota:
		return c.quota(m)
	case *quotav1.Tenant:
		was, _ := old.(*quotav1.Tenant)
		switch {
		case m.GetPlan() == was.GetPlan():
		case m.GetPlan() != "":
			return "a plan has numbers of its own"
		default:
			return "without plan " + was.GetPlan() + " its numbers would not hold"
		}
		if (c.Rate != "" || c.Burst != nil) && resetsMore(m, was) {
			return "a reset allows more than a rate"
		}
		return above("weight", m.GetWeight(), c.Weight)
	}
	return ""
}

// resetsMore reports whether a tenant has a reset that it did not have.
func resetsMore(m, was *quotav1.Tenant) bool {
	return slices.ContainsFunc(m.GetResets(), func(r *quotav1.Reset) bool {
		return !slices.ContainsFunc(was.GetResets(), func(old *quotav1.Reset) bool { return proto.Equal(r, old) })
	})
}

func (c *Ceiling) limit(l *quotav1.Limit) string {
	if c.Rate == "" && c.Burst == nil {
		return ""
	}
	if unenforced(l.GetMode()) {
		return fmt.Sprintf("mode %s enforces no rate", l.GetMode())
	}
	if l.GetConcurrency() > 0 {
		return "a concurrency bounds no rate"
	}
	if l.GetQuota() != nil {
		return "a quota bounds no rate"
	}
	if over := c.rate("", l.GetRate(), l.GetBurst()); over != "" {
		return over
	}
	for _, o := range l.GetOverrides() {
		if over := c.rate("override of "+o.GetClient()+": ", o.GetRate(), o.GetBurst()); over != "" {
			return over
		}
	}
	for _, p := range l.GetPlans() {
		if over := c.rate("plan "+p.GetPlan()+": ", p.GetRate(), p.GetBurst()); over != "" {
			return over
		}
	}
	if most := l.GetRequestedRate().GetMost(); most != "" {
		of, _ := resource.LimitConfig(l) // what cannot be read is refused by others
		return c.rate("requested_rate: ", most, of.Bucket().Burst)
	}
	return ""
}

func (c *Ceiling) override(o *quotav1.Override) string {
	switch {
	case c.Rate == "" && c.Burst == nil:
		return ""
	case o.GetConcurrency() > 0 || o.GetAmount() > 0:
		return "an override without a rate bounds none"
	}
	return c.rate("", o.GetRate(), o.GetBurst())
}

// rate holds a rate and a burst to the ceiling. A rate that cannot be read is refused by others.
func (c *Ceiling) rate(where, rate string, burst float64) string {
	if c.Rate != "" {
		most, _ := resource.ParseRate(c.Rate)
		if r, err := resource.ParseRate(rate); err == nil && r > most {
			return fmt.Sprintf("%srate %s is above %s", where, rate, c.Rate)
		}
	}
	if over := above("burst", burst, c.Burst); over != "" {
		return where + over
	}
	return ""
}

func (c *Ceiling) quota(q *quotav1.Quota) string {
	switch {
	case c.Weight == nil && c.Guaranteed == nil && c.Max == nil:
		return ""
	case unenforced(q.GetMode()):
		return fmt.Sprintf("mode %s enforces no share: the tenant could take the whole pool", q.GetMode())
	case c.Max != nil && q.Max == nil:
		return fmt.Sprintf("without max it is unbounded, and at most %g", *c.Max)
	case c.Max != nil && q.GetUntil() != nil:
		return "after its until there would be no max"
	}
	for _, over := range []string{above("max", q.GetMax(), c.Max), above("guaranteed", q.GetGuaranteed(), c.Guaranteed),
		above("weight", q.GetWeight(), c.Weight)} {
		if over != "" {
			return over
		}
	}
	return ""
}

func above(what string, value float64, most *float64) string {
	if most == nil || value <= *most {
		return ""
	}
	return fmt.Sprintf("%s %g is above %g", what, value, *most)
}

// unenforced reports whether what a resource says binds nobody in the mode.
func unenforced(m quotav1.Mode) bool {
	return m != quotav1.Mode_MODE_UNSPECIFIED && m != quotav1.Mode_ENFORCE
}

// deletes says why the ceiling does not let a resource be deleted, "" if it does. Without its
// quota a tenant has no max, and without its tenant neither weight nor quotas nor plan. old is stored now, nil for
// nothing and for what is not known.
func (c *Ceiling) deletes(name string, old resource.Message) string {
	ref, err := resource.Parse(name)
	was, _ := old.(*quotav1.Tenant)
	switch {
	case c == nil || err != nil:
		return ""
	case ref.Kind == resource.Quota && c.Max != nil:
		return "without it there would be no max"
	case ref.Kind == resource.Tenant && (c.Max != nil || c.Weight != nil):
		return "without it there would be neither weight nor quotas"
	case was.GetPlan() != "":
		return "without it there would be no plan " + was.GetPlan()
	}
	return ""
}

// Ceilings has the ceilings of callers that a guard has let through.
type Ceilings struct{}

// Bounded reports whether a caller may write a resource within a ceiling only. Otherwise Write and Delete are nil.
func (Ceilings) Bounded(ctx context.Context, name string) bool {
	return within(ctx, name, (*Ceiling).String) != nil
}

// Write says whether the ceilings of a caller let it write a resource in place of an old one, nil for none; with a
// status if not. Whether the caller is an editor at all is another matter.
func (Ceilings) Write(ctx context.Context, m, old resource.Message) error {
	return within(ctx, m.GetName(), func(c *Ceiling) string { return c.over(m, old) })
}

// Delete is Write for a resource to delete.
func (Ceilings) Delete(ctx context.Context, name string, old resource.Message) error {
	return within(ctx, name, func(c *Ceiling) string { return c.deletes(name, old) })
}

// TakeOver says whether a caller may take a resource from the set that owns it, with a status if
// not. Whether the caller is an editor at all is another matter.
func (Ceilings) TakeOver(ctx context.Context, name string) error {
	c, why := callerOf(ctx), ""
	for _, g := range c.grants {
		switch {
		case g.Role == Admin, edits([]Grant{g}, name) && g.TakeOver:
			return nil
		case edits([]Grant{g}, name):
			why = c.Name + " may not take it over: its grant does not say takeOver; an administrator may do it"
		}
	}
	if why == "" {
		return nil
	}
	return status.Error(codes.PermissionDenied, why)
}

// within is nil if one of the caller's grants for a resource has no ceiling that is exceeded, or if there is none.
func within(ctx context.Context, name string, over func(*Ceiling) string) error {
	c := callerOf(ctx)
	var why string
	for _, g := range c.grants {
		switch {
		case g.Role == Admin:
			return nil
		case !edits([]Grant{g}, name):
			continue
		}
		exceeded := over(g.Ceiling)
		if exceeded == "" {
			return nil
		}
		why = fmt.Sprintf("%s: the ceiling of %s is %s: %s; an administrator may do it", name, c.Name, g.Ceiling,
			exceeded)
	}
	if why == "" {
		return nil
	}
	return status.Error(codes.PermissionDenied, why)
}
