package quota

import (
	"cmp"
	"context"
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
	return append(over, tooMany...).OrNil()
}

// overCeiling is the refusal of a change by a ceiling, in the ceiling's words.
type overCeiling string

func (e overCeiling) Error() string { return string(e) }

// checkCeilings holds changes to the ceilings of the caller. What is stored already may be
// written again: somebody else has given it. Such a change is bound to what is stored now, or it
// would give again what somebody else takes back meanwhile.
func (s *Server) checkCeilings(ctx context.Context, changes []store.Change) (all store.ChangeErrors) {
	if s.ceilings == nil {
		return nil
	}
	for i, c := range changes {
		name, refused := c.Name, error(nil)
		if c.Op == store.Delete {
			refused = s.ceilings.Delete(ctx, name)
		} else {
			name = c.Resource.GetName()
			refused = s.ceilings.Write(ctx, c.Resource)
		}
		if c.TakeOver || c.Op == store.Delete {
			if err := s.ceilings.TakeOver(ctx, name); err != nil {
				changes[i].NoTakeOver = overCeiling(grpcstatus.Convert(err).Message())
			}
		}
		if refused == nil {
			continue
		}
		if c.Op != store.Delete {
			old, err := s.store.Get(ctx, name)
			if err == nil && proto.Equal(resource.Spec(old), resource.Spec(c.Resource)) {
				changes[i].Etag = cmp.Or(c.Etag, old.GetEtag())
				continue
			}
		}
		said := strings.TrimPrefix(grpcstatus.Convert(refused).Message(), name+": ")
		all = append(all, &store.ChangeError{Index: i, Name: name, Err: overCeiling(said)})
	}
	return all
}
