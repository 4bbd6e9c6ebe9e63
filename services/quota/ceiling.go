package quota

import (
	"cmp"
	"context"
	"errors"
	"strings"

	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
)

// checkChanges returns why changes may not be made: all that are refused, as store.ChangeErrors.
func (s *Server) checkChanges(ctx context.Context, changes []store.Change) error {
	over := s.checkCeilings(ctx, changes)
	tooMany, err := s.checkLimitCount(ctx, changes)
	if err != nil && len(over) == 0 {
		return err
	}
	return append(append(over, tooMany...), s.checkOverrideCount(ctx, changes)...).OrNil()
}

// overCeiling is the refusal of a change by a ceiling, in the ceiling's words.
type overCeiling string

func (e overCeiling) Error() string { return string(e) }

// checkCeilings holds changes to the ceilings of the caller.
func (s *Server) checkCeilings(ctx context.Context, changes []store.Change) (all store.ChangeErrors) {
	if s.ceilings == nil {
		return nil
	}
	for i := range changes {
		c := &changes[i]
		name := c.Name
		if c.Op != store.Delete {
			name = c.Resource.GetName()
		}
		if c.TakeOver || c.Op == store.Delete {
			if err := s.ceilings.TakeOver(ctx, name); err != nil {
				c.NoTakeOver = overCeiling(grpcstatus.Convert(err).Message())
			}
		}
		if !s.ceilings.Bounded(ctx, name) {
			continue
		}
		if err := s.checkCeiling(ctx, name, c); err != nil {
			said := strings.TrimPrefix(grpcstatus.Convert(err).Message(), name+": ")
			all = append(all, &store.ChangeError{Index: i, Name: name, Err: overCeiling(said)})
		}
	}
	return all
}

// checkCeiling holds one change to the ceilings of the caller. What is stored already may be written again: somebody
// else has given it. Such a change, and each of a tenant, is bound to what is stored now, or it would give again what
// somebody else takes back meanwhile.
func (s *Server) checkCeiling(ctx context.Context, name string, c *store.Change) error {
	old, err := s.store.Get(ctx, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		old = nil
	case err != nil:
		return err
	}
	ref, _ := resource.Parse(name)
	bind := ref.Kind == resource.Tenant // its plan has been compared
	if c.Op == store.Delete {
		err = s.ceilings.Delete(ctx, name, old)
	} else {
		err = s.ceilings.Write(ctx, c.Resource, old)
		if err != nil && old != nil && proto.Equal(resource.Spec(old), resource.Spec(c.Resource)) {
			bind, err = true, nil
		}
	}
	switch {
	case err != nil || !bind:
	case old != nil:
		c.Etag = cmp.Or(c.Etag, old.GetEtag())
	case c.Op == store.Put:
		c.Op = store.Create
	}
	return err
}
