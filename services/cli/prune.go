package cli

import (
	"context"
	"slices"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// left are the resources that the request's set owns and the request does not name.
func (c *client) left(ctx context.Context, r *quotav1.ApplyRequest) ([]*quotav1.Deletion, error) {
	named := make(map[string]bool, len(r.GetResources()))
	for _, envelope := range r.GetResources() {
		named[resource.Name(envelope)] = true
	}
	var out []*quotav1.Deletion
	for _, kind := range slices.Backward(resource.Kinds) {
		ms, err := c.list(ctx, selection{kind: kind})
		if err != nil {
			return nil, err
		}
		for _, m := range ms {
			if m.GetSet() == r.GetSet() && !named[m.GetName()] {
				out = append(out, &quotav1.Deletion{Name: m.GetName(), Etag: m.GetEtag()})
			}
		}
	}
	return out, nil
}
