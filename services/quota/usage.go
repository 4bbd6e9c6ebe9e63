package quota

import (
	"context"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota/valid"
)

// ListUsage returns the use of calendar quotas. The guard has decided whether the caller may read the tenant.
func (s *Server) ListUsage(_ context.Context, r *quotav1.ListUsageRequest) (*quotav1.ListUsageResponse, error) {
	if err := valid.Message(r); err != nil {
		return nil, status(err)
	}
	if s.live == nil {
		return nil, grpcstatus.Error(codes.Unavailable, "no coordinator leads here: the use is not known")
	}
	out, err := s.live.Usage(r)
	if err != nil {
		return nil, explainStatus(err)
	}
	return out, nil
}
