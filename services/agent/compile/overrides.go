package compile

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/proto/link"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// Overrides are apart from their tenants: one is compiled alone, whatever its limit is, and a gateway finds it by the
// hash of the client's key.

// override returns an override that is there, nil if there is none of the name.
func (b *Book) override(name string) *quotav1.Resource {
	encoded, is := b.over[name]
	if !is {
		return nil
	}
	r := &quotav1.Resource{}
	_ = proto.Unmarshal([]byte(encoded), r) // this process has encoded it
	return r
}

// changedOverride is an override that changes, and its encoding. Both are empty if it is deleted.
type changedOverride struct {
	now     *quotav1.Resource
	encoded string
}

// putOverride takes an override into the draft; nil deletes the one of that name.
func (d *draft) putOverride(name string, r *quotav1.Resource) {
	before := d.book.over[name]
	if c, again := d.over[name]; again {
		before = c.encoded
	}
	now := resource.Encode(r)
	d.digest = d.digest.ReplaceEncoded([]byte(before), now)
	if before != "" {
		d.count--
	}
	if r != nil {
		d.count++
	}
	d.over[name] = changedOverride{r, string(now)}
}

// compiledOverride is an override as gateways have it.
type compiledOverride struct {
	of  config.OverridesOf
	row config.Override
}

// compileOverride compiles an override; nil is none.
func (b *Book) compileOverride(r *quotav1.Resource) (*compiledOverride, error) {
	if r == nil {
		return nil, nil
	}
	if err := known(r.GetOverride().ProtoReflect()); err != nil {
		return nil, err
	}
	ref, rb, err := resource.OverrideConfig(r.GetOverride())
	if err != nil {
		return nil, err
	}
	row, kind := config.OverrideOf(limiter.ClientKey(b.Seed, ref.Tenant, ref.Limit, ref.Client()), rb)
	return &compiledOverride{config.OverridesOf{Tenant: ref.Tenant, Limit: ref.Limit, Kind: kind}, row}, nil
}

// compileOverrides finds what the draft makes of the tables of overrides.
func (d *draft) compileOverrides() {
	changes := map[config.OverridesOf]*config.OverrideChange{}
	change := func(of config.OverridesOf) *config.OverrideChange {
		if changes[of] == nil {
			changes[of] = &config.OverrideChange{OverridesOf: of}
		}
		return changes[of]
	}
	d.leftOver = map[string]config.LeftOut{}
	for name, c := range d.over {
		was, _ := d.book.compileOverride(d.book.override(name))
		now, err := d.book.compileOverride(c.now)
		if err != nil {
			ref, _ := resource.Parse(name)
			d.leftOver[name] = config.LeftOut{Tenant: ref.Tenant, Limit: resource.OverridePart(ref),
				Reason: name + ": " + err.Error()}
		}
		if was != nil && now != nil && *was == *now {
			continue
		}
		if was != nil && (now == nil || was.of != now.of) {
			c := change(was.of)
			c.Removed = append(c.Removed, was.row.Key)
		}
		if now != nil {
			c := change(now.of)
			c.Put = append(c.Put, now.row)
		}
	}
	for _, c := range changes {
		d.out.Overrides = append(d.out.Overrides, *c)
	}
	slices.SortFunc(d.out.Overrides, func(a, b config.OverrideChange) int { return a.Compare(b.OverridesOf) })
	d.out.Overrides = d.book.set.Resolve(d.out.Overrides)
}

// commitOverrides puts the overrides of the draft in the book.
func (d *draft) commitOverrides() {
	b := d.book
	for name, c := range d.over {
		delete(b.leftOver, name)
		if delete(b.over, name); c.now != nil {
			at := strings.Index(c.encoded, name)
			b.over[c.encoded[at:at+len(name)]] = c.encoded // the name takes no memory of its own
		}
	}
	maps.Copy(b.leftOver, d.leftOver)
}

// tableSize is about how many bytes a table takes on the link.
func tableSize(of config.OverridesOf, table *config.Overrides) int {
	if table.Len() == 0 {
		return 0
	}
	return link.OverridesSize(of, table.Len())
}
