package store

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// Op says what a Change does.
type Op uint8

const (
	Put    Op = iota // create or replace
	Create           // must not exist
	Update           // must exist
	Delete           // must exist, unless AllowMissing
)

// Change is one step of an Apply.
type Change struct {
	Op       Op
	Resource resource.Message // what to store; not with Delete
	Name     string           // with Delete only: what to delete
	// Etag that the stored resource must have; "" = any.
	Etag string
	// Declared makes a Put or Update of what is stored already Unchanged, whatever the etag: for documents that declare
	// a state. Without it the etag must match: of two callers that read a number, add one and write the same result,
	// one is refused.
	Declared bool
	// KeepResets leaves a tenant the resets that are stored if the change has none: documents may leave them out.
	KeepResets bool
	// Set owns the resource from then on; nil leaves its owner as it is. A resource of another set is refused with
	// ErrOwned, unless TakeOver is set.
	Set      *string
	TakeOver bool
	// NoTakeOver is the error if the caller may not take over resources of another set; nil = it may.
	NoTakeOver error
	// AllowMissing makes the Delete of what does not exist a success.
	AllowMissing bool
	// Force makes a Delete also delete what needs the resource: quotas and limits of a tenant; quotas of a pool, and
	// limits on that pool alone. Limits on several pools lose that pool. Without Force such a Delete fails with
	// ErrInUse.
	Force bool
}

func (c Change) name() string {
	if c.Op == Delete {
		return c.Name
	}
	return c.Resource.GetName()
}

// keepResets gives a tenant the resets that are stored, see KeepResets.
func (c *Change) keepResets(old resource.Message) {
	given, is := c.Resource.(*quotav1.Tenant)
	was, _ := old.(*quotav1.Tenant)
	if !is || !c.KeepResets || len(given.GetResets()) > 0 || len(was.GetResets()) == 0 {
		return
	}
	kept := proto.Clone(given).(*quotav1.Tenant)
	kept.Resets = was.GetResets()
	c.Resource = kept
}

// possible returns why a change cannot be made to what is stored: a resource that exists or is missing, or that another
// set owns.
func (c *Change) possible(old resource.Message, exists bool) error {
	if !exists {
		if c.Op == Update || c.Op == Delete && !c.AllowMissing {
			return ErrNotFound
		}
		return nil
	}
	switch {
	case c.Op == Create:
		return ErrExists
	case c.foreign(old) && c.TakeOver, c.forbidden(old):
		return fmt.Errorf("%w: %s; %w", ErrOwned, old.GetSet(), c.NoTakeOver)
	case c.foreign(old):
		return fmt.Errorf("%w: %s", ErrOwned, old.GetSet())
	}
	return nil
}

// current returns an error if a change expects an etag that the resource does not have.
func (c *Change) current(old resource.Message, exists bool) error {
	switch {
	case c.Etag == "":
	case !exists && c.Op != Delete:
		return fmt.Errorf("%w: it does not exist, the change expects %s", ErrEtag, c.Etag)
	case exists && old.GetEtag() != c.Etag:
		return fmt.Errorf("%w: it is %s, the change expects %s; read it again", ErrEtag, old.GetEtag(), c.Etag)
	}
	return nil
}

// same reports whether a change leaves what people write of a resource, and its owner, as it is.
func (c *Change) same(old resource.Message) bool {
	return (c.Set == nil || *c.Set == old.GetSet()) && proto.Equal(resource.Spec(old), resource.Spec(c.Resource))
}

// foreign reports whether a change would take a resource from another set without being asked, or allowed, to.
func (c *Change) foreign(old resource.Message) bool {
	return c.Op != Delete && c.Set != nil && old.GetSet() != "" && old.GetSet() != *c.Set &&
		(!c.TakeOver || c.NoTakeOver != nil)
}

// forbidden reports whether a change would delete what another set owns, by a caller who may not take it over.
// Otherwise the caller could delete it and create it in another set.
func (c *Change) forbidden(old resource.Message) bool {
	return c.Op == Delete && c.NoTakeOver != nil && old.GetSet() != "" && (c.Set == nil || *c.Set != old.GetSet())
}
