package quota

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
)

// checkChanges reports why changes may not be made.
func (s *Server) checkChanges(ctx context.Context, changes []store.Change) error {
	if err := s.checkCeilings(ctx, changes); err != nil {
		return err
	}
	return s.checkLimitCount(ctx, changes)
}

// checkCeilings holds changes to the ceilings of the caller. What is stored already may be
// written again: somebody else has given it. Such a change is bound to what is stored now, or it
// would give again what somebody else takes back meanwhile.
func (s *Server) checkCeilings(ctx context.Context, changes []store.Change) error {
	if s.ceilings == nil {
		return nil
	}
	for i, c := range changes {
		if c.Op == store.Delete {
			if err := s.ceilings.Delete(ctx, c.Name); err != nil {
				return err
			}
			continue
		}
		refused := s.ceilings.Write(ctx, c.Resource)
		if refused == nil {
			continue
		}
		old, err := s.store.Get(ctx, c.Resource.GetName())
		if err != nil || !proto.Equal(resource.Spec(old), resource.Spec(c.Resource)) {
			return refused
		}
		changes[i].Etag = cmp.Or(c.Etag, old.GetEtag())
	}
	return nil
}
