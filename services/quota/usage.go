package quota

import (
	"context"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota/valid"
)

// ListUsage returns the use of calendar quotas. The guard has decided whether the caller may read the tenant.
func (s *Server) ListUsage(_ context.Context, r *quotav1.ListUsageRequest) (*quotav1.ListUsageResponse, error) {
	if err := s.asked(valid.Message(r), "the use is not known"); err != nil {
		return nil, err
	}
	out, err := s.live.Usage(r)
	if err != nil {
		return nil, explainStatus(err)
	}
	return out, nil
}
