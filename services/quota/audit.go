package quota

import (
	"context"
	"log/slog"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
)

// Audit makes the server write a line for each resource that a request changes: who,
// what, before and after. who names the caller.
func (s *Server) Audit(log *slog.Logger, who func(context.Context) string) *Server {
	s.audit, s.who = log, who
	return s
}

func changed(c store.Change) string {
	if c.Resource != nil {
		return c.Resource.GetName()
	}
	return c.Name
}

// maxAuthor bounds what the history keeps of a caller's name, bytes: a certificate may have
// any number of identities.
const maxAuthor = 1024

// note is what the history is to say about a change of the caller.
func (s *Server) note(ctx context.Context, action string) store.Note {
	n := store.Note{Action: action}
	if s.who != nil {
		n.Author = s.who(ctx)
		n.Author = strings.ToValidUTF8(n.Author[:min(len(n.Author), maxAuthor)], "")
	}
	return n
}

// record writes the lines of changes that were made.
func (s *Server) record(note store.Note, changes []store.Change, r store.Result) {
	if s.audit == nil {
		return
	}
	for i, c := range changes {
		if r.Outcomes[i] == store.Unchanged {
			continue
		}
		line := []any{"who", note.Author, "outcome", outcomeNames[r.Outcomes[i]], "resource", changed(c), "revision",
			r.Revision, "action", note.Action}
		if note.Message != "" {
			line = append(line, "message", note.Message)
		}
		if old := r.Before[i]; old != nil {
			line = append(line, "before", spec(old))
		}
		if m := r.Resources[i]; m != nil {
			line = append(line, "after", spec(m))
		}
		s.audit.Info("audit", line...)
	}
	for _, name := range r.Removed {
		s.audit.Info("audit", "who", note.Author, "outcome", "deleted with what it belongs to", "resource", name,
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
