package translate

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/titrate/titrate/control/config"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/rls/ratelimitconfig"
	"github.com/titrate/titrate/services/store/resource"
)

// Options of a translation.
type Options struct {
	// Pool is the pool that the limits apply to; "": to all pools, and none is made.
	Pool string
	// Capacity of the pool in requests per second.
	Capacity float64
}

// Result is what a configuration says in resources.
type Result struct {
	Resources []resource.Message
	// Identities and Classes are the names that the filter's settings must define.
	Identities, Classes []Name
	Notes               []Note // what has no counterpart, in the order of the files
}

// Name is an identity or a class, and which part of a descriptor it stands for.
type Name struct{ Name, Of string }

// Note says what could not be translated.
type Note struct {
	File string
	Line int
	Text string
}

// String is such as shop.yaml:7: the text.
func (n Note) String() string { return fmt.Sprintf("%s:%d: %s", n.File, n.Line, n.Text) }

// Resources translates a configuration.
func Resources(c *ratelimitconfig.Config, o Options) *Result {
	t := &translator{o: o, out: &Result{}}
	if o.Pool != "" {
		t.out.Resources = append(t.out.Resources, &quotav1.Pool{Name: "pools/" + o.Pool, Capacity: o.Capacity})
	}
	tenants := names{}
	for _, d := range c.Domains() {
		t.tenant, t.limits = tenants.add(d.Key), names{}
		t.out.Resources = append(t.out.Resources, &quotav1.Tenant{Name: "tenants/" + t.tenant, DisplayName: d.Key})
		t.children(d, nil)
		if n := len(t.limits); n > config.MaxLimits {
			t.note(d, "domain %s has %d limits, a tenant has at most %d: apply will refuse it; split the domain", d.Key,
				n, config.MaxLimits)
		}
	}
	return t.out
}

type translator struct {
	o      Options
	out    *Result
	tenant string
	limits names
}

func (t *translator) note(at *ratelimitconfig.Node, format string, args ...any) {
	t.out.Notes = append(t.out.Notes, Note{at.File, at.Line, fmt.Sprintf(format, args...)})
}

// children translates what is below a node; path leads to it.
func (t *translator) children(parent *ratelimitconfig.Node, path []*ratelimitconfig.Node) {
	for _, n := range parent.Children {
		below := append(slices.Clone(path), n)
		if n.Limit != nil && !isOverride(parent, below) {
			t.node(parent, below)
		}
		t.children(n, below)
	}
}

// node translates a node that has a limit; path leads to it.
func (t *translator) node(parent *ratelimitconfig.Node, path []*ratelimitconfig.Node) {
	n := path[len(path)-1]
	by, when := varying(path), conditions(path)
	base := anyValue(parent, n)
	switch {
	case n.Limit.Unlimited && base == nil:
		return // nothing else limits it
	case n.Limit.Unlimited:
		t.note(n, "%s is unlimited, and the limit of %s applies to it: left out; give that limit a class without it",
			n.Limit.Path, base.Limit.Path)
		return
	case len(by) > 1:
		t.note(n, "%s counts each combination of %s apart: left out; join them in one header, and count by an "+
			"identity that reads it", n.Limit.Path, strings.Join(keys(by), " and "))
		return
	}
	if base != nil {
		t.note(n, "%s applies besides %s: ratelimit takes the more specific one of the two, Titrate holds both",
			n.Limit.Path, base.Limit.Path)
	}
	l := t.limit(n)
	if l == nil {
		return
	}
	l.Key = quotav1.Key_TENANT
	if len(by) == 1 {
		l.Key, l.Identity = quotav1.Key_CLIENT, slug(by[0].Key)
		t.out.Identities = needed(t.out.Identities, l.Identity, "the value of "+by[0].Key)
		t.overrides(l, parent, path)
	}
	if len(when) > 0 {
		class := slug(strings.Join(when, "."))
		l.Classes = []string{class}
		t.out.Classes = needed(t.out.Classes, class, strings.Join(when, " and "))
	}
	t.out.Resources = append(t.out.Resources, l)
}

// limit translates a node's limit without what it counts; nil if it cannot be.
func (t *translator) limit(n *ratelimitconfig.Node) *quotav1.Limit {
	rate, burst, ok := rateOf(n.Limit)
	if !ok {
		t.note(n, "%s allows more than %.0f per second: left out", n.Limit.Path, resource.MaxRate)
		return nil
	}
	name := n.Limit.Name
	if name == "" {
		name = strings.TrimPrefix(n.Limit.Path, n.Limit.Domain+".")
	}
	l := &quotav1.Limit{Name: "tenants/" + t.tenant + "/limits/" + t.limits.add(name), Rate: rate, Burst: burst}
	if n.Limit.Shadow {
		l.Mode = quotav1.Mode_SHADOW
	}
	if n.Limit.Quota {
		l.Mode = quotav1.Mode_SHADOW
		t.note(n, "%s has quota_mode: mode SHADOW, and no metadata says that it was exceeded", n.Limit.Path)
	}
	if len(n.Limit.Replaces) > 0 {
		t.note(n, "%s replaces %s: Titrate holds all of them", n.Limit.Path, strings.Join(n.Limit.Replaces, ", "))
	}
	if t.o.Pool != "" {
		l.Pools = []string{t.o.Pool}
	}
	return l
}

// overrides adds the values beside a key without a value that have numbers of their own.
func (t *translator) overrides(l *quotav1.Limit, parent *ratelimitconfig.Node, path []*ratelimitconfig.Node) {
	for _, n := range parent.Children {
		if !isOverride(parent, append(slices.Clone(path[:len(path)-1]), n)) || n.Key != path[len(path)-1].Key {
			continue
		}
		o := &quotav1.Override{Client: n.Value}
		if n.Limit.Unlimited {
			o.Rate = fmt.Sprintf("%.0f/s", resource.MaxRate)
		} else if rate, burst, ok := rateOf(n.Limit); ok {
			o.Rate, o.Burst = rate, burst
		} else {
			t.note(n, "%s allows more than %.0f per second: left out", n.Limit.Path, resource.MaxRate)
			continue
		}
		l.Overrides = append(l.Overrides, o)
	}
}

// isOverride reports whether a node only gives one value of a key other numbers than the
// key's limit has: no other key varies, and it differs in nothing else.
func isOverride(parent *ratelimitconfig.Node, path []*ratelimitconfig.Node) bool {
	n := path[len(path)-1]
	base := anyValue(parent, n)
	const longest = 256 // bytes of an override's client
	return base != nil && n.Limit != nil && n.Value != "" && len(n.Value) <= longest && !n.IsPattern() &&
		len(varying(path)) == 0 && n.Limit.Shadow == base.Limit.Shadow && n.Limit.Quota == base.Limit.Quota &&
		len(n.Limit.Replaces) == 0 && !base.Limit.Unlimited
}

// anyValue is the child with the key of a node that has a value, and with a limit for all
// values; nil if there is none.
func anyValue(parent, n *ratelimitconfig.Node) *ratelimitconfig.Node {
	for _, c := range parent.Children {
		if c != n && c.Key == n.Key && c.Value == "" && c.Limit != nil {
			return c
		}
	}
	return nil
}

// varying are the nodes of a path whose values are counted apart.
func varying(path []*ratelimitconfig.Node) (out []*ratelimitconfig.Node) {
	for _, n := range path {
		if n.Value == "" || n.IsPattern() && !n.Share {
			out = append(out, n)
		}
	}
	return out
}

// conditions are what a path demands of values, as KEY-VALUE.
func conditions(path []*ratelimitconfig.Node) (out []string) {
	for _, n := range path {
		if n.Value != "" {
			out = append(out, n.Key+"-"+n.Value)
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
	ratelimitconfig.Hour: "h", ratelimitconfig.Day: "d"}

// rateOf writes a limit's rate, and its burst where the rate's amount is not it. A week and
// what is longer becomes a rate per day.
func rateOf(l *ratelimitconfig.Limit) (rate string, burst float64, ok bool) {
	if l.Requests == 0 {
		return "0", 0, true
	}
	amount, window := float64(l.Requests), windows[l.Unit]
	if window == "" {
		burst, window = amount, "d"
		amount /= l.Unit.Length().Hours() / 24
	}
	rate = strconv.FormatFloat(amount, 'f', -1, 64) + "/" + window
	_, err := resource.ParseRate(rate)
	return rate, burst, err == nil && burst <= resource.MaxRate
}

// needed adds a name that the filter must define, once.
func needed(list []Name, name, of string) []Name {
	if slices.Contains(list, Name{name, of}) {
		return list
	}
	return append(list, Name{name, of})
}

// names are the IDs that were given.
type names map[string]bool

// add returns an ID for a text, which no other text has.
func (n names) add(text string) string {
	id := slug(text)
	for i := 2; n[id]; i++ {
		suffix := fmt.Sprintf("-%d", i)
		base := slug(text)
		id = base[:min(len(base), longestID-len(suffix))] + suffix
	}
	n[id] = true
	return id
}

const longestID = 63

var notID = regexp.MustCompile(`[^a-z0-9._]+`)

// slug makes an ID of a text.
func slug(text string) string {
	id := notID.ReplaceAllString(strings.ToLower(text), "-")
	id = strings.Trim(id, "._-")
	id = strings.Trim(id[:min(len(id), longestID)], "._-")
	if id == "" {
		return "any"
	}
	return id
}
