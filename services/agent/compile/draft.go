package compile

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/proto/link"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// draft is a change of a book while it is compiled. The book is as before until commit.
type draft struct {
	book   *Book
	pools  map[string]*quotav1.Resource // nil: as in the book
	groups map[string]group             // of the tenants and plans that are compiled
	over   map[string]changedOverride   // overrides that change, by name
	count  int
	digest resource.Digest

	out    config.Delta
	shared config.Shared
	names  map[string]bool // of the pools
	left   map[string][]config.LeftOut
	sizes  map[string]int
	size   int
	head   int
	apart  int // of overrides

	leftOver map[string]config.LeftOut // overrides that change and are not valid
}

// put takes a resource into the draft; nil deletes the one of that name.
func (d *draft) put(name string, r *quotav1.Resource) {
	pools := d.pools
	if pools == nil {
		pools = d.book.pools
	}
	if _, is := pools[name]; is || r.GetPool() != nil {
		d.putPool(name, r)
		return
	}
	if r.GetOverride() != nil || d.book.over[name] != "" || d.over[name].now != nil {
		d.putOverride(name, r)
		return
	}
	owner := ownerOf(name)
	d.touch(owner)
	g, before := d.groups[owner].with(name, r)
	d.count += len(g) - len(d.groups[owner])
	d.digest = d.digest.Replace(before, r)
	d.groups[owner] = g
}

func (d *draft) putPool(name string, r *quotav1.Resource) {
	if d.pools == nil {
		d.pools = make(map[string]*quotav1.Resource, len(d.book.pools)+1)
		maps.Copy(d.pools, d.book.pools)
	}
	before := len(d.pools)
	d.digest = d.digest.Replace(d.pools[name], r)
	if d.pools[name] = r; r == nil {
		delete(d.pools, name)
	}
	d.count += len(d.pools) - before
}

// touch has a tenant or a plan compiled.
func (d *draft) touch(owner string) {
	if _, is := d.groups[owner]; !is {
		d.groups[owner] = slices.Clone(d.book.groups[owner])
	}
}

// compile finds what the change makes of the configuration.
func (d *draft) compile() error {
	d.left = make(map[string][]config.LeftOut, len(d.groups))
	if err := d.compileShared(); err != nil {
		return err
	}
	plans := namesOf(d.shared.Plans)
	for name, g := range d.groups {
		if isPlan(name) {
			continue
		}
		t, left := compileOwner(name, g, d.names, plans)
		d.left[name] = append(d.left[name], left...)
		if t == nil {
			d.out.Removed = append(d.out.Removed, name)
			continue
		}
		if name == config.DefaultTenant {
			t.Limits = nil // which are the defaults
		}
		d.out.Tenants = append(d.out.Tenants, *t)
	}
	// Each part alone is valid. An older gateway, which refuses a configuration that is not valid as a whole, must see
	// none of what is too much together.
	for _, l := range d.out.LeaveOut(d.shared) {
		d.left[l.Tenant] = append(d.left[l.Tenant], l)
	}
	d.dropUnchanged()
	d.compileOverrides()
	return d.weigh()
}

// compileShared compiles what tenants share. If tenants may mean something else with it, all are compiled: quotas
// of pools that come or go, plans that do, limits whose inherited limits change.
func (d *draft) compileShared() error {
	b := d.book
	before := b.set.Shared()
	d.shared, d.names = before, b.names
	if d.pools != nil || b.empty() {
		if err := d.compilePools(); err != nil {
			return err
		}
		if !maps.Equal(d.names, b.names) {
			d.touchAll()
		}
	}
	if g, is := d.groups[config.DefaultTenant]; is {
		t, _ := compileOwner(config.DefaultTenant, g, d.names, nil)
		defaults := config.Config{Defaults: t.Limits}
		d.left[config.DefaultTenant] = defaults.LeaveOut()
		if d.shared.Defaults = defaults.Defaults; !reflect.DeepEqual(d.shared.Defaults, before.Defaults) {
			d.touchAll()
		}
	}
	if d.compilePlans(); !sameNames(d.shared.Plans, before.Plans) {
		d.touchTenants()
	}
	switch same := sameNames(d.shared.Plans, before.Plans) && reflect.DeepEqual(d.shared.Pools, before.Pools) &&
		reflect.DeepEqual(d.shared.Defaults, before.Defaults); {
	case b.empty() || !same:
		d.out.Shared = &d.shared
	default:
		for i := range d.shared.Plans {
			if p := d.shared.Plans[i]; !reflect.DeepEqual(p, before.Plans[i]) {
				d.out.Plans = append(d.out.Plans, p)
			}
		}
	}
	return nil
}

func (d *draft) touchAll() {
	for owner := range d.book.groups {
		d.touch(owner)
	}
}

func (d *draft) touchTenants() {
	for owner := range d.book.groups {
		if !isPlan(owner) {
			d.touch(owner)
		}
	}
}

// compilePlans compiles the plans that are touched.
func (d *draft) compilePlans() {
	byName := map[string]config.Tenant{}
	for _, p := range d.shared.Plans {
		byName[p.Name] = p
	}
	touched := false
	for owner, g := range d.groups {
		if !isPlan(owner) {
			continue
		}
		touched = true
		p, left := compileOwner(owner, g, d.names, nil)
		if d.left[owner] = left; p != nil {
			byName[p.Name] = *p
		} else {
			delete(byName, strings.TrimPrefix(owner, "plans/"))
		}
	}
	if !touched {
		return
	}
	in := config.Config{Pools: d.shared.Pools, Defaults: d.shared.Defaults}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		in.Plans = append(in.Plans, byName[name])
	}
	for _, l := range in.LeaveOut() {
		d.left[l.Tenant] = append(d.left[l.Tenant], l)
	}
	d.shared.Plans = in.Plans
}

// sameNames reports whether two lists of plans have limits of the same names: then their tenants mean the same.
func sameNames(a, b []config.Tenant) bool {
	return slices.EqualFunc(a, b, func(a, b config.Tenant) bool {
		return a.Name == b.Name && slices.EqualFunc(a.Limits, b.Limits, func(a, b config.Limit) bool {
			return a.Name == b.Name
		})
	})
}

// namesOf are the names of plans.
func namesOf(plans []config.Tenant) map[string]bool {
	names := make(map[string]bool, len(plans))
	for i := range plans {
		names[plans[i].Name] = true
	}
	return names
}

func (d *draft) compilePools() error {
	d.shared.Pools, d.names = nil, make(map[string]bool, len(d.pools))
	for _, name := range slices.Sorted(maps.Keys(d.pools)) {
		p, err := compilePool(d.pools[name].GetPool())
		if err != nil {
			return err
		}
		d.shared.Pools = append(d.shared.Pools, p)
		d.names[p.Name] = true
	}
	return (&config.Config{Pools: d.shared.Pools}).Validate()
}

// dropUnchanged takes out of the result what is so already, and sorts the rest.
func (d *draft) dropUnchanged() {
	now := &d.book.set
	d.out.Tenants = slices.DeleteFunc(d.out.Tenants, func(t config.Tenant) bool {
		before := now.Tenant(t.Name)
		return before != nil && reflect.DeepEqual(*before, t)
	})
	d.out.Removed = slices.DeleteFunc(d.out.Removed, func(name string) bool { return now.Tenant(name) == nil })
	slices.SortFunc(d.out.Tenants, func(a, b config.Tenant) int { return cmp.Compare(a.Name, b.Name) })
	slices.Sort(d.out.Removed)
}

// weigh returns an error if the configuration is too large for the link.
func (d *draft) weigh() (err error) {
	b := d.book
	d.sizes, d.size, d.head, d.apart = make(map[string]int, len(d.out.Tenants)), b.size, b.head, b.apart
	if s := d.shared; d.out.Shared != nil || d.out.Plans != nil {
		c := config.Config{Pools: s.Pools, Defaults: s.Defaults, Plans: s.Plans}
		if d.head, err = link.ConfigSize(&c); err != nil {
			return err
		}
	}
	for _, name := range d.out.Removed {
		d.size -= b.sizes[name]
	}
	for i := range d.out.Tenants {
		t := &d.out.Tenants[i]
		if d.sizes[t.Name], err = link.TenantSize(t); err != nil {
			return err
		}
		d.size += d.sizes[t.Name] - b.sizes[t.Name]
	}
	for i := range d.out.Overrides {
		c := &d.out.Overrides[i]
		after, _ := c.Table()
		d.apart += tableSize(c.OverridesOf, after) - tableSize(c.OverridesOf, b.set.Overrides(c.OverridesOf))
	}
	return link.Fits(d.head+d.size, d.apart)
}

// commit puts the draft in the book.
func (d *draft) commit() {
	b := d.book
	if b.empty() {
		b.groups, b.left = make(map[string]group, len(d.groups)), map[string][]config.LeftOut{}
		b.sizes = make(map[string]int, len(d.out.Tenants))
		b.over, b.leftOver = make(map[string]string, len(d.over)), map[string]config.LeftOut{}
	}
	d.commitOverrides()
	_ = b.set.Change(&d.out) // each has revision 0
	if d.pools != nil {
		b.pools = d.pools
	}
	b.names, b.count, b.digest, b.size, b.head, b.apart = d.names, d.count, d.digest, d.size, d.head, d.apart
	for name, g := range d.groups {
		if b.groups[name] = g; len(g) == 0 {
			delete(b.groups, name)
		}
		if b.left[name] = d.left[name]; len(d.left[name]) == 0 {
			delete(b.left, name)
		}
	}
	maps.Copy(b.sizes, d.sizes)
	for _, name := range d.out.Removed {
		delete(b.sizes, name)
	}
}
