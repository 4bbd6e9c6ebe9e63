package quota

import (
	"context"

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

// Apply creates or replaces several resources in one transaction. An etag in a
// resource must match the stored one.
func (s *Server) Apply(ctx context.Context, r *quotav1.ApplyRequest) (*quotav1.ApplyResponse, error) {
	if err := valid.Apply(r); err != nil {
		return nil, status(err)
	}
	changes := make([]store.Change, len(r.GetResources()))
	for i, envelope := range r.GetResources() {
		given := resource.Unwrap(envelope)
		m := resource.Spec(given)
		resource.FillDefaults(m)
		changes[i] = store.Change{Op: store.Put, Resource: m, Etag: given.GetEtag()}
	}
	result, err := s.commit(ctx, changes, r.GetValidateOnly())
	if err != nil {
		return nil, status(err)
	}
	response := &quotav1.ApplyResponse{Revision: result.Revision}
	for i, m := range result.Resources {
		response.Resources = append(response.Resources, resource.Of(s.withStatus(m)))
		response.Outcomes = append(response.Outcomes, outcomes[result.Outcomes[i]])
	}
	return response, nil
}
