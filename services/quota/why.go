package quota

import (
	"cmp"
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// Why explains what limits a tenant: its share of each pool, and its limits. Without
// anything to explain it says what is missing: NOT_FOUND for a tenant, pool or limit that is
// not configured, a note for a tenant that sends nothing.
func (s *Server) Why(ctx context.Context, r *quotav1.WhyRequest) (*quotav1.WhyResponse, error) {
	if err := named(r, "tenant", r.GetTenant(), resource.Tenant); err != nil {
		return nil, status(err)
	}
	if r.GetPool() != "" {
		if err := named(r, "pool", r.GetPool(), resource.Pool); err != nil {
			return nil, status(err)
		}
	}
	if s.live == nil {
		return nil, grpcstatus.Error(codes.Unavailable, "no coordinator leads here: shares are not known")
	}
	explanations, err := s.live.Explain(ctx, r.GetTenant(), r.GetPool())
	if err != nil {
		return nil, explainStatus(err)
	}
	w, err := s.seen(ctx, r)
	if err != nil {
		return nil, explainStatus(err)
	}
	w.explain(explanations)
	if err := w.explainLimits(); err != nil {
		return nil, status(cmp.Or(s.checkStored(ctx, r.GetTenant()), err))
	}
	if len(w.out.Explanations) == 0 && len(w.out.Limits) == 0 {
		if err := s.checkStored(ctx, r.GetTenant(), r.GetPool()); err != nil {
			return nil, status(err)
		}
	}
	w.note()
	return w.out, nil
}

// Check says whether the installation is healthy.
func (s *Server) Check(ctx context.Context, _ *quotav1.CheckRequest) (*quotav1.CheckResponse, error) {
	if s.live == nil {
		return nil, grpcstatus.Error(codes.Unavailable, "no coordinator runs here: its health is not known")
	}
	return &quotav1.CheckResponse{Findings: s.live.Findings(ctx)}, nil
}

// explainStatus is the status of a coordinator that does not know the shares.
func explainStatus(err error) error {
	if _, is := grpcstatus.FromError(err); is {
		return err
	}
	if errors.Is(err, context.Canceled) {
		return grpcstatus.Error(codes.Canceled, err.Error())
	}
	return grpcstatus.Errorf(codes.Unavailable, "shares are not known here: %v", err)
}

// checkStored returns an error for the first name that is not stored.
func (s *Server) checkStored(ctx context.Context, names ...string) error {
	for _, name := range names {
		if name == "" || name == "tenants/"+resource.AnyTenant {
			continue
		}
		if _, err := s.store.Get(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// guaranteeOf returns what a guarantee means in a pool. When the store cannot say,
// the explanation is still worth giving: as MINIMUM, the default.
func (s *Server) guaranteeOf(ctx context.Context, pool string) quotav1.Guarantee {
	m, err := s.store.Get(ctx, pool)
	if p, ok := m.(*quotav1.Pool); ok && err == nil {
		return p.GetGuarantee()
	}
	return quotav1.Guarantee_MINIMUM
}
