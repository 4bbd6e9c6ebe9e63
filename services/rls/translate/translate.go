package translate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/titrate/titrate/control/config"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/rls/ratelimitconfig"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

// Options of a translation.
type Options struct {
	// Pool is the pool that the limits apply to; "": to all pools, and none is made.
	Pool string
	// Capacity of the pool in requests per second.
	Capacity float64
}

// Result has the resources that a configuration is translated to.
type Result struct {
	Resources []resource.Message
	// Identities and Classes are the names that the filter's settings must define.
	Identities, Classes []Name
	Notes               []Note // what differs, in the order of the files
	Limits              int    // that were read
}

// Count returns how many limits mean something else in the resources, and how many are not in them.
func (r *Result) Count() (changed, leftOut int) {
	gone := map[Note]bool{} // by place
	for _, n := range r.Notes {
		if n.Kind == LeftOut {
			gone[Note{File: n.File, Line: n.Line}] = true
		}
	}
	other := map[Note]bool{}
	for _, n := range r.Notes {
		if at := (Note{File: n.File, Line: n.Line}); n.Kind == Changed && !gone[at] {
			other[at] = true
		}
	}
	return len(other), len(gone)
}

// Name is an identity or a class, and which part of a descriptor it stands for.
type Name struct{ Name, Of string }

// Kind says what a note is about.
type Kind string

// The kinds.
const (
	Changed Kind = "changed"  // a limit means something else
	LeftOut Kind = "left out" // a limit is not in the resources
	Warning Kind = "warning"
)

// Note says what differs in the resources.
type Note struct {
	Kind Kind
	File string
	Line int
	Text string
}

// String returns one line, such as: changed: shop.yaml:7: the text.
func (n Note) String() string { return fmt.Sprintf("%s: %s:%d: %s", n.Kind, n.File, n.Line, n.Text) }

// Resources translates a configuration.
func Resources(c *ratelimitconfig.Config, o Options) *Result { return translated(c, o, siblings{}) }

func translated(c *ratelimitconfig.Config, o Options, tree siblings) *Result {
	t := &translator{o: o, out: &Result{Limits: len(c.Limits())}, tree: tree, identities: newDefined(),
		classes: newDefined()}
	if o.Pool != "" {
		t.out.Resources = append(t.out.Resources, &quotav1.Pool{Name: "pools/" + o.Pool, Capacity: o.Capacity})
	}
	tenants := newNames()
	for _, d := range c.Domains() {
		t.tenant, t.limits, t.domain = tenants.add(d.Key), newNames(), d
		t.out.Resources = append(t.out.Resources, &quotav1.Tenant{Name: "tenants/" + t.tenant,
			DisplayName: wording.First(d.Key, mostNamed)})
		t.children(d, nil)
		if n := len(t.limits.given); n > config.MaxLimits {
			t.note(Warning, d, "domain %s has %d limits, a tenant has at most %d: apply will refuse it; split the "+
				"domain", d.Key, n, config.MaxLimits)
		}
	}
	t.out.Identities, t.out.Classes = t.identities.all, t.classes.all
	return t.out
}

// mostNamed is the number of characters of a domain that a tenant's name may have.
const mostNamed = 256

type translator struct {
	o      Options
	out    *Result
	domain *ratelimitconfig.Node
	tenant string
	limits names
	tree   siblings
	// identities and classes are of all domains: the filter defines them for all tenants.
	identities, classes *defined
}

func (t *translator) note(kind Kind, at *ratelimitconfig.Node, format string, args ...any) {
	t.out.Notes = append(t.out.Notes, Note{kind, at.File, at.Line, fmt.Sprintf(format, args...)})
}

// children translates what is below a node; path leads to it.
func (t *translator) children(parent *ratelimitconfig.Node, path []*ratelimitconfig.Node) {
	for _, n := range parent.Children {
		below := append(slices.Clone(path), n)
		switch override := t.tree.isOverride(parent, below); {
		case n.Limit == nil && override:
			t.limited(n, t.tree.rivals(t.domain, below, t.tree.anyValue(parent, n)))
		case n.Limit == nil:
			t.limited(n, t.tree.rivals(t.domain, below, nil))
		case override:
			t.besides(below, t.tree.rivals(t.domain, below, t.tree.anyValue(parent, n)))
		default:
			t.node(parent, below)
		}
		t.children(n, below)
	}
}

// node translates a node that has a limit; path leads to it.
func (t *translator) node(parent *ratelimitconfig.Node, path []*ratelimitconfig.Node) {
	n := path[len(path)-1]
	by, when := varying(path), conditions(path, "%s-%s")
	others := t.tree.rivals(t.domain, path, nil)
	switch {
	case n.Limit.Unlimited:
		t.besides(path, others)
		return // nothing else limits it
	case len(by) > 1:
		t.note(LeftOut, n, "%s counts each combination of %s apart: join them in one header, and count by an identity "+
			"that reads it", n.Limit.Path, strings.Join(keys(by), " and "))
		return
	}
	l := t.limit(n)
	if l == nil {
		return
	}
	t.besides(path, others)
	l.Key = quotav1.Key_TENANT
	if len(by) == 1 {
		l.Key, l.Identity = quotav1.Key_CLIENT, t.identities.name(by[0].Key, "the value of "+by[0].Key)
	}
	t.numbers(l, parent, path)
	if len(when) > 0 {
		l.Classes = []string{t.classes.name(strings.Join(when, "."), strings.Join(conditions(path, "%s=%q"), " and "))}
	}
	t.out.Resources = append(t.out.Resources, l)
}

// limit translates a node's limit without what it counts; nil if it cannot be.
func (t *translator) limit(n *ratelimitconfig.Node) *quotav1.Limit {
	rate, ok := t.rate(n)
	if !ok {
		return nil
	}
	name := n.Limit.Name
	if name == "" {
		name = strings.TrimPrefix(n.Limit.Path, n.Limit.Domain+".")
	}
	l := &quotav1.Limit{Name: "tenants/" + t.tenant + "/limits/" + t.limits.add(name), Rate: rate}
	if n.Limit.Shadow {
		l.Mode = quotav1.Mode_SHADOW
	}
	if n.Limit.Quota {
		l.Mode = quotav1.Mode_SHADOW
		t.note(Changed, n, "%s has quota_mode: mode SHADOW, which refuses nothing, also if all such limits are "+
			"exceeded", n.Limit.Path)
	}
	if len(n.Limit.Replaces) > 0 {
		t.note(Changed, n, "%s replaces %s: Titrate holds all of them", n.Limit.Path,
			strings.Join(n.Limit.Replaces, ", "))
	}
	t.metadata(n)
	if t.o.Pool != "" {
		l.Pools = []string{t.o.Pool}
	}
	return l
}

func (t *translator) metadata(n *ratelimitconfig.Node) {
	if n.Limit != nil && n.Limit.Metadata != nil {
		t.note(Changed, n, "%s has metadata: responses do not have it", n.Limit.Path)
	}
}

// numbers gives a limit a rate or, of weeks, months and years, a calendar's quota. Values next to a key without a value
// that have other numbers become overrides.
func (t *translator) numbers(l *quotav1.Limit, parent *ratelimitconfig.Node, path []*ratelimitconfig.Node) {
	n := path[len(path)-1]
	var values []*ratelimitconfig.Node
	if l.Identity != "" {
		for _, v := range t.tree.of(parent, n.Key).all {
			if t.tree.isOverride(parent, append(slices.Clone(path[:len(path)-1]), v)) {
				values = append(values, v)
			}
		}
	}
	quota := t.calendar(n, values)
	if quota != nil {
		l.Rate, l.Quota = "", quota
	} else {
		t.burst(n)
	}
	for _, v := range values {
		if o := t.override(v, quota != nil); o != nil {
			l.Overrides = append(l.Overrides, o)
		}
	}
}

// override is another number for a value; nil: a Limit cannot have it.
func (t *translator) override(n *ratelimitconfig.Node, quota bool) *quotav1.InlineOverride {
	o := &quotav1.InlineOverride{Client: n.Value}
	switch {
	case isFree(n) && quota:
		o.Amount = config.MaxRate
	case isFree(n):
		o.Rate = fmt.Sprintf("%.0f/s", resource.MaxRate)
	case quota:
		o.Amount = float64(n.Limit.Requests)
	default:
		rate, ok := t.rate(n)
		if !ok {
			return nil
		}
		o.Rate = rate
		t.burst(n)
	}
	t.metadata(n)
	return o
}

var periods = map[ratelimitconfig.Unit]quotav1.CalendarQuota_Per{ratelimitconfig.Week: quotav1.CalendarQuota_WEEK,
	ratelimitconfig.Month: quotav1.CalendarQuota_MONTH, ratelimitconfig.Year: quotav1.CalendarQuota_YEAR}

var begins = map[quotav1.CalendarQuota_Per]string{
	quotav1.CalendarQuota_WEEK:  "each week begins on Monday; a week of ratelimit begins on Thursday",
	quotav1.CalendarQuota_MONTH: "each month begins on its first day; a month of ratelimit has 30 days",
	quotav1.CalendarQuota_YEAR:  "each year begins on 1 January; a year of ratelimit has 365 days",
}

// calendar is the quota of a limit of weeks, months or years, and a note that says so. It is nil for other limits, and
// where a value next to the limit's key needs another period, which an override cannot have.
func (t *translator) calendar(n *ratelimitconfig.Node, values []*ratelimitconfig.Node) *quotav1.CalendarQuota {
	per, ok := periods[n.Limit.Unit]
	if !ok || n.Limit.Requests == 0 {
		return nil
	}
	for _, v := range values {
		if !isFree(v) && (v.Limit.Unit != n.Limit.Unit || v.Limit.Requests == 0) {
			t.note(Warning, n, "%s stays a bucket, not a calendar's quota: %s next to it has another period",
				n.Limit.Path, v.Limit.Path)
			return nil
		}
	}
	t.note(Warning, n, "%s becomes a quota of the calendar in UTC: %s", n.Limit.Path, begins[per])
	return &quotav1.CalendarQuota{Amount: float64(n.Limit.Requests), Per: per}
}

// burst notes that a limit's amount is larger than a burst can be.
func (t *translator) burst(n *ratelimitconfig.Node) {
	if n.Limit.Requests > resource.MaxRate {
		t.note(Changed, n, "%s lets a client send %d at once: here %.0f", n.Limit.Path, n.Limit.Requests,
			resource.MaxRate)
	}
}

// isFree reports whether ratelimit limits nothing that leads to a node and no further.
func isFree(n *ratelimitconfig.Node) bool { return n.Limit == nil || n.Limit.Unlimited }

// varying are the nodes of a path whose values are counted apart.
func varying(path []*ratelimitconfig.Node) (out []*ratelimitconfig.Node) {
	for _, n := range path {
		if n.Value == "" || n.IsPattern() && !n.Share {
			out = append(out, n)
		}
	}
	return out
}

// conditions lists the values that a path asks for, in a format of key and value.
func conditions(path []*ratelimitconfig.Node, format string) (out []string) {
	for _, n := range path {
		if n.Value != "" {
			out = append(out, fmt.Sprintf(format, n.Key, n.Value))
		}
	}
	return out
}

func keys(nodes []*ratelimitconfig.Node) (out []string) {
	for _, n := range nodes {
		out = append(out, n.Key)
	}
	return out
}

var windows = map[ratelimitconfig.Unit]string{ratelimitconfig.Second: "s", ratelimitconfig.Minute: "min",
	ratelimitconfig.Hour: "h", ratelimitconfig.Day: "d", ratelimitconfig.Week: "w", ratelimitconfig.Month: "30d",
	ratelimitconfig.Year: "365d"}

// rate writes a limit's rate, whose amount is the burst, too; false: there is no such rate.
func (t *translator) rate(n *ratelimitconfig.Node) (string, bool) {
	l := n.Limit
	rate, ok := rateOf(l)
	if !ok {
		t.note(LeftOut, n, "%s allows more than %.0f per second", l.Path, resource.MaxRate)
		return "", false
	}
	return rate, true
}

// rateOf is a limit's rate; false: a Limit cannot have it.
func rateOf(l *ratelimitconfig.Limit) (string, bool) {
	if l.Requests == 0 {
		return "0", true
	}
	rate := fmt.Sprintf("%d/%s", l.Requests, windows[l.Unit])
	_, err := resource.ParseRate(rate)
	return rate, err == nil
}
