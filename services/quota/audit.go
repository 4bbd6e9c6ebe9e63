package quota

import (
	"context"
	"errors"
	"log/slog"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
)

// maxBefore is in how many changes at once the audit reads what was stored before;
// of more the lines have no before.
const maxBefore = 1000

// Audit makes the server write a line for each resource that a request changes: who,
// what, before and after. who names the caller.
func (s *Server) Audit(log *slog.Logger, who func(context.Context) string) *Server {
	s.audit, s.who = log, who
	return s
}

// before reads what the changes are about to replace. It is nil without an audit; a
// resource that cannot be read is absent. Without etcd it fails at once: what follows
// could not be done either.
func (s *Server) before(ctx context.Context, changes []store.Change) (map[string]resource.Message, error) {
	if s.audit == nil || len(changes) > maxBefore {
		return nil, nil
	}
	out := make(map[string]resource.Message, len(changes))
	for _, c := range changes {
		m, err := s.store.Get(ctx, changed(c))
		if errors.Is(err, store.ErrUnavailable) {
			return nil, err
		}
		if err == nil {
			out[changed(c)] = m
		}
	}
	return out, nil
}

func changed(c store.Change) string {
	if c.Resource != nil {
		return c.Resource.GetName()
	}
	return c.Name
}

// record writes the lines of changes that were made.
func (s *Server) record(ctx context.Context, changes []store.Change, before map[string]resource.Message,
	r store.Result) {
	if s.audit == nil {
		return
	}
	for i, c := range changes {
		if r.Outcomes[i] == store.Unchanged {
			continue
		}
		line := []any{"who", s.who(ctx), "outcome", outcomeNames[r.Outcomes[i]], "resource", changed(c), "revision",
			r.Revision}
		if old := before[changed(c)]; old != nil {
			line = append(line, "before", spec(old))
		}
		if m := r.Resources[i]; m != nil {
			line = append(line, "after", spec(m))
		}
		s.audit.Info("audit", line...)
	}
	for _, name := range r.Removed {
		s.audit.Info("audit", "who", s.who(ctx), "outcome", "deleted with what it belongs to", "resource", name,
			"revision", r.Revision)
	}
}

var outcomeNames = map[store.Outcome]string{store.Created: "created", store.Updated: "updated",
	store.Deleted: "deleted"}

// spec is a resource as JSON, without what only the server writes.
func spec(m proto.Message) string {
	b, err := protojson.Marshal(resource.Spec(m.(resource.Message)))
	if err != nil {
		return err.Error()
	}
	return string(b)
}
