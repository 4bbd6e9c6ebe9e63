package quota

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota/valid"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
)

var outcomes = map[store.Outcome]quotav1.ApplyResponse_Outcome{
	store.Created:   quotav1.ApplyResponse_CREATED,
	store.Updated:   quotav1.ApplyResponse_UPDATED,
	store.Unchanged: quotav1.ApplyResponse_UNCHANGED,
}

// Apply creates, replaces and deletes any number of resources in one step. An etag in a
// resource must match the stored one, unless what is stored is what is asked for.
func (s *Server) Apply(ctx context.Context, r *quotav1.ApplyRequest) (*quotav1.ApplyResponse, error) {
	if err := valid.Apply(r); err != nil {
		return nil, status(err)
	}
	note := s.noteOf(ctx, "apply", r)
	note.Message, note.Set, note.IfRevision = r.GetMessage(), r.GetSet(), r.GetExpectedRevision()
	warnings, err := s.unknownNames(r)
	if err = s.unlessMade(ctx, &note, err); err != nil {
		return nil, status(err)
	}
	result, err := s.commit(ctx, note, applied(r), r.GetValidateOnly())
	if err != nil {
		return nil, status(err)
	}
	response := &quotav1.ApplyResponse{Revision: result.Revision, Warnings: append(warnings, lapsed(r)...)}
	s.withStatus(ctx, result.Resources[:len(r.GetResources())]...)
	for i := range r.GetResources() {
		response.Resources = append(response.Resources, resource.Of(result.Resources[i]))
		response.Outcomes = append(response.Outcomes, outcomes[result.Outcomes[i]])
	}
	for i, d := range r.GetDeletions() {
		if result.Outcomes[len(r.GetResources())+i] == store.Deleted {
			response.Deleted = append(response.Deleted, d.GetName())
		}
	}
	return response, nil
}

// applied are the changes that a request asks for: its resources, then its deletions.
func applied(r *quotav1.ApplyRequest) []store.Change {
	var set *string
	if r.GetSet() != "" {
		set = &r.Set
	}
	changes := make([]store.Change, 0, len(r.GetResources())+len(r.GetDeletions()))
	for _, envelope := range r.GetResources() {
		given := resource.Unwrap(envelope)
		m := resource.Spec(given)
		resource.FillDefaults(m)
		changes = append(changes, store.Change{Op: store.Put, Resource: m, Etag: given.GetEtag(), Declared: true,
			KeepResets: true, Set: set, TakeOver: r.GetTakeOver()})
	}
	for _, d := range r.GetDeletions() {
		changes = append(changes, store.Change{Op: store.Delete, Name: d.GetName(), Etag: d.GetEtag(),
			AllowMissing: true, Set: set})
	}
	return changes
}

// lapsed returns a warning for each resource of a request of which something has lapsed: it is stored, so that an
// export can be applied again, and does nothing.
func lapsed(r *quotav1.ApplyRequest) (warnings []*quotav1.Warning) {
	for i, envelope := range r.GetResources() {
		m := resource.Unwrap(envelope)
		if field, sentence := resource.Lapsed(m, time.Now()); field != "" {
			warnings = append(warnings, &quotav1.Warning{Resource: m.GetName(), Message: sentence,
				Field: fmt.Sprintf("resources[%d].%s.%s", i, fieldOf(m), field)})
		}
	}
	return warnings
}

// unknownNames returns a warning for each name in a request that gateways do not know. With
// strict an unknown name is an error, and so is a name that no gateway can judge.
func (s *Server) unknownNames(r *quotav1.ApplyRequest) (warnings []*quotav1.Warning, err error) {
	if s.live == nil {
		return nil, nil
	}
	refusal := &valid.Error{}
	for i, envelope := range r.GetResources() {
		m := resource.Unwrap(envelope)
		doubts, known := s.live.Doubts(m)
		if !known && r.GetStrict() {
			return nil, grpcstatus.Errorf(codes.FailedPrecondition,
				"%s: it is not known whether gateways know its names: "+
					"no gateway has reported its identities and classes to this coordinator; is it the leader?",
				m.GetName())
		}
		for _, d := range doubts {
			if d.Field == "" {
				continue // of what is in force, not of what is asked for
			}
			field := fmt.Sprintf("resources[%d].%s.%s", i, fieldOf(m), d.Field)
			warnings = append(warnings, &quotav1.Warning{Resource: m.GetName(), Field: field, Message: d.Message})
			refusal.Violations = append(refusal.Violations, valid.Violation{Field: field, Message: d.Message})
		}
	}
	if r.GetStrict() && len(warnings) > 0 {
		return nil, refusal
	}
	return warnings, nil
}
