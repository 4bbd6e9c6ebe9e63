package quota

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
)

// Audit makes the server write a line for each resource that a request changes: who, what, before and after. A request
// about more than 1000 has one line: who, how many, and a digest of what was asked for. who names the caller.
func (s *Server) Audit(log *slog.Logger, who func(context.Context) string) *Server {
	s.audit, s.who = log, who
	return s
}

// AuditFirst makes the server write a line about each request before it changes anything: a request whose line
// cannot be written fails.
func (s *Server) AuditFirst() *Server {
	s.auditFirst = true
	return s
}

// announce writes the line about a request whose changes are about to be stored.
func (s *Server) announce(ctx context.Context, note store.Note, changes []store.Change) error {
	if !s.auditFirst {
		return nil
	}
	line := slog.NewRecord(time.Now(), slog.LevelInfo, "audit", 0)
	line.Add("who", note.Author, "outcome", "requested")
	if len(changes) > mostLines {
		line.Add("resources", len(changes), "digest", note.Fingerprint)
	} else {
		names := make([]string, len(changes))
		for i, c := range changes {
			names[i] = changed(c)
		}
		line.Add("resources", names)
	}
	line.Add("action", note.Action, "message", note.Message)
	if err := s.audit.Handler().Handle(ctx, line); err != nil {
		return grpcstatus.Errorf(codes.Unavailable,
			"nothing is changed: its audit line cannot be written, and --audit-required is set: %v", err)
	}
	return nil
}

func changed(c store.Change) string {
	if c.Resource != nil {
		return c.Resource.GetName()
	}
	return c.Name
}

// maxAuthor bounds what the history keeps of a caller's name, bytes: a certificate may have any number of identities.
const maxAuthor = 1024

// note makes the entry of the history for a change by the caller.
func (s *Server) note(ctx context.Context, action string) store.Note {
	n := store.Note{Action: action, Minor: s.minor != nil && s.minor(ctx) || asksMinor(ctx)}
	if s.who != nil {
		n.Author = s.who(ctx)
		n.Author = strings.ToValidUTF8(n.Author[:min(len(n.Author), maxAuthor)], "")
	}
	return n
}

// MinorKey is the key of a call's metadata by which a caller says, with the value true, that its changes
// are minor, see store.Note. The operator's are, since any author of custom resources brings them about.
const MinorKey = "titrate-minor"

func asksMinor(ctx context.Context) bool {
	values := metadata.ValueFromIncomingContext(ctx, MinorKey)
	return len(values) > 0 && values[0] == "true"
}

// noteOf is the note of a request that may have an ID.
func (s *Server) noteOf(ctx context.Context, action string, r identified) store.Note {
	n := s.note(ctx, action)
	n.Request, n.Fingerprint = r.GetRequestId(), fingerprint(r)
	return n
}

// identified is a request that may have an ID.
type identified interface {
	proto.Message
	GetRequestId() string
}

// aboutTheRequest are fields of requests that do not say what is asked for.
var aboutTheRequest = []protoreflect.Name{"request_id", "validate_only", "expected_revision"}

// fingerprint is the same for requests that ask for the same.
func fingerprint(r identified) string {
	m := r.ProtoReflect()
	meant := m.New()
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if !slices.Contains(aboutTheRequest, f.Name()) {
			meant.Set(f, v)
		}
		return true
	})
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(meant.Interface())
	if err != nil {
		return "" // it was read from bytes, so that it can be written
	}
	sum := sha256.New()
	sum.Write([]byte(m.Descriptor().FullName() + "\x00"))
	sum.Write(b) // up to 64 MiB
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// mostLines is the most changed resources of a request that have a line each. The lines of a million overrides would
// take longer than to store them.
const mostLines = 1000

// record writes the lines of changes that were made.
func (s *Server) record(note store.Note, changes []store.Change, r store.Result) {
	if s.audit == nil {
		return
	}
	made := map[store.Outcome]int{store.Deleted: len(r.Removed)}
	for _, outcome := range r.Outcomes {
		made[outcome]++
	}
	if made[store.Created]+made[store.Updated]+made[store.Deleted] > mostLines {
		s.audit.Info("audit", "who", note.Author, "outcome", "many", "created", made[store.Created], "updated",
			made[store.Updated], "deleted", made[store.Deleted], "digest", note.Fingerprint, "revision", r.Revision,
			"action", note.Action, "message", note.Message)
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
