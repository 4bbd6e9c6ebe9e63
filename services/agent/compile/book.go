package compile

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/titrate/titrate/control/config"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// Book is the set of resources that a coordinator streams, by resource name, and what they
// compile to. The zero value is empty and ready. Not safe for concurrent use.
type Book struct {
	// Seed of the hashes of clients' keys. It must not change.
	Seed uint64

	pools  map[string]*quotav1.Resource // by resource name
	groups map[string]group             // by owner: see resource.Ref.Owner
	over   map[string]string            // overrides by resource name, encoded: there may be a million
	count  int                          // of resources
	digest resource.Digest              // of resources

	set   config.Set                  // that the resources compile to, without tenants before the first Change
	names map[string]bool             // of the pools
	left  map[string][]config.LeftOut // by owner
	sizes map[string]int              // of the tenants on the link, bytes
	size  int                         // of all of them
	head  int                         // of what they share
	apart int                         // of overrides

	leftOver map[string]config.LeftOut // overrides that are not valid, by resource name
}

// Change takes in changed resources, forgets the deleted ones, by name, and returns what that makes of the
// configuration; revisions are left 0. A deleted name that is not there is no error: the state is as wanted. What of a
// tenant is not valid is left out, see LeftOut. An error, of a pool or of the configuration's size, refuses the whole
// change; the book is then as before.
func (b *Book) Change(resources []*quotav1.Resource, deleted []string) (*config.Delta, error) {
	d := &draft{book: b, groups: map[string]group{}, count: b.count,
		digest: b.digest, over: map[string]changedOverride{}}
	for _, r := range resources {
		d.put(resource.Name(r), r)
	}
	for _, name := range deleted {
		d.put(name, nil)
	}
	if b.empty() {
		d.touch(config.DefaultTenant)
	}
	if err := d.compile(); err != nil {
		return nil, err
	}
	d.commit()
	return &d.out, nil
}

// Config is the whole configuration, its tenants by name; its revision and seed are left 0.
func (b *Book) Config() *config.Config { return b.set.Config() }

// empty reports that there was no Change yet: after it there is the default tenant.
func (b *Book) empty() bool { return b.set.Tenants() == 0 }

// Len is the number of resources.
func (b *Book) Len() int { return b.count }

// Digest returns the digest of all resources.
func (b *Book) Digest() resource.Digest { return b.digest }

// Resources returns a configuration of all resources, to be encoded. Overrides are in it as they are encoded, as
// unknown fields: to decode a million of them takes seconds. The others are shared: don't change them.
func (b *Book) Resources() *controlv1.Configuration {
	out := &controlv1.Configuration{Resources: slices.Collect(maps.Values(b.pools))}
	for _, g := range b.groups {
		out.Resources = append(out.Resources, g...)
	}
	field := protowire.AppendTag(nil, out.ProtoReflect().Descriptor().Fields().ByName("resources").Number(),
		protowire.BytesType)
	bytes := 0
	for _, encoded := range b.over {
		bytes += len(field) + protowire.SizeBytes(len(encoded))
	}
	overrides := make([]byte, 0, bytes)
	for _, encoded := range b.over {
		overrides = protowire.AppendString(append(overrides, field...), encoded)
	}
	out.ProtoReflect().SetUnknown(overrides)
	return out
}

// Named returns the resources of these names that are there.
func (b *Book) Named(names []string) (out []*quotav1.Resource) {
	for _, name := range names {
		if r := b.pools[name]; r != nil {
			out = append(out, r)
			continue
		}
		if r := b.override(name); r != nil {
			out = append(out, r)
			continue
		}
		g := b.groups[ownerOf(name)]
		if i, found := g.find(name); found {
			out = append(out, g[i])
		}
	}
	return out
}

// LeftOut lists the invalid parts that are not in the configuration, by owner, with a reason that names the field.
func (b *Book) LeftOut() (out []config.LeftOut) {
	for _, owner := range slices.Sorted(maps.Keys(b.left)) {
		out = append(out, b.left[owner]...)
	}
	for _, name := range slices.Sorted(maps.Keys(b.leftOver)) {
		out = append(out, b.leftOver[name])
	}
	return out
}

// group is the resources of one tenant or plan, by name. Those whose name says neither are the group of the owner "".
type group []*quotav1.Resource

// ownerOf is the owner of a resource, "" if its name does not say.
func ownerOf(name string) string {
	ref, _ := resource.Parse(name)
	return ref.Owner()
}

// isPlan reports whether an owner is a plan.
func isPlan(owner string) bool { return strings.HasPrefix(owner, resource.Plan.Collection()+"/") }

func (g group) find(name string) (int, bool) {
	return slices.BinarySearchFunc(g, name, func(r *quotav1.Resource, name string) int {
		return strings.Compare(resource.Name(r), name)
	})
}

// with returns the group with a resource, and without the one of that name if r is nil; and
// what was there before. It may write into g.
func (g group) with(name string, r *quotav1.Resource) (now group, before *quotav1.Resource) {
	i, found := g.find(name)
	if found {
		before = g[i]
	}
	switch {
	case r == nil && found:
		return slices.Delete(g, i, i+1), before
	case r == nil:
		return g, nil
	case found:
		g[i] = r
		return g, before
	}
	return slices.Insert(g, i, r), nil
}
