package quota

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
)

// Why explains what limits a tenant: its share of each pool, and its limits. Without anything to explain it says what
// is missing: NOT_FOUND for a tenant, pool or limit that is not configured, a note for a tenant that sends nothing. The
// NOT_FOUND of a tenant names the tenant that its requests count for.
func (s *Server) Why(ctx context.Context, r *quotav1.WhyRequest) (*quotav1.WhyResponse, error) {
	if err := s.checkWhy(r); err != nil {
		return nil, err
	}
	explanations, err := s.live.Explain(ctx, r.GetTenant(), r.GetPool())
	if err != nil {
		return nil, explainStatus(err)
	}
	w, err := s.seen(ctx, r)
	if err != nil {
		return nil, explainStatus(err)
	}
	if explanations, err = w.withSeen(explanations); err != nil {
		return nil, explainStatus(err)
	}
	if len(explanations) == 0 && w.total == nil && len(w.limits) == 0 {
		if err := s.checkTenant(ctx, r.GetTenant()); err != nil {
			return nil, status(err)
		}
	}
	w.explain(explanations)
	if err := w.explainLimits(); err != nil {
		return nil, status(cmp.Or(s.checkTenant(ctx, r.GetTenant()), err))
	}
	if len(w.out.Explanations) == 0 && len(w.out.Limits) == 0 {
		if err := s.checkStored(ctx, r.GetPool()); err != nil {
			return nil, status(err)
		}
	}
	w.out.Notes = append(w.out.Notes, w.blocks()...)
	w.note()
	w.out.Notes = append(w.out.Notes, s.bucketNote(ctx, r)...)
	if _, only := s.readsOnly(ctx); !only && !r.GetShadow() { // they name limits and pools of all
		w.out.Notes = append(w.out.Notes, s.unknown(ctx, 5, w.tenant, r.GetPool(), r.GetLimit())...)
	}
	return w.out, nil
}

// bucketNote says, where several sites use the bucket of a client at a limit, how much each site has.
func (s *Server) bucketNote(ctx context.Context, r *quotav1.WhyRequest) []string {
	if r.GetLimit() == "" || r.GetClient() == "" || r.GetShadow() {
		return nil
	}
	b, err := s.live.Bucket(ctx, r.GetTenant()+"/limits/"+r.GetLimit(), r.GetClient())
	if err != nil || len(b.GetClaims()) == 0 {
		return nil // the rest is worth saying all the same
	}
	return []string{bucketSentence(b) + claimSentences(b.GetClaims())}
}

// checkWhy returns why a question cannot be answered here.
func (s *Server) checkWhy(r *quotav1.WhyRequest) error {
	if err := named(r, "tenant", r.GetTenant(), resource.Tenant); err != nil {
		return status(err)
	}
	if r.GetPool() != "" {
		if err := named(r, "pool", r.GetPool(), resource.Pool); err != nil {
			return status(err)
		}
	}
	return s.asked(nil, "shares are not known")
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

// checkTenant is checkStored of a tenant, which may send requests though it is not stored: it says for which tenant
// gateways count them.
func (s *Server) checkTenant(ctx context.Context, name string) error {
	err := s.checkStored(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%w; its requests count as those of tenant %q (tenants/%[2]s), except at gateways "+
			"whose unknown_tenant is REJECT or BYPASS", err, resource.AnyTenant)
	}
	return err
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
