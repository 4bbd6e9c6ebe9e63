package quota

import (
	"context"

	"google.golang.org/protobuf/types/known/emptypb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// GetPool returns a pool with its status.
func (s *Server) GetPool(ctx context.Context, r *quotav1.GetPoolRequest) (*quotav1.Pool, error) {
	return as[*quotav1.Pool](s.get(ctx, resource.Pool, r, r.GetName()))
}

// ListPools returns a page of pools in the order of their names.
func (s *Server) ListPools(ctx context.Context, r *quotav1.ListPoolsRequest) (*quotav1.ListPoolsResponse, error) {
	page, next, err := s.list(ctx, resource.Pool, r, "")
	if err != nil {
		return nil, err
	}
	return &quotav1.ListPoolsResponse{Pools: typed[*quotav1.Pool](page), NextPageToken: next}, nil
}

// CreatePool stores a pool that must not exist.
func (s *Server) CreatePool(ctx context.Context, r *quotav1.CreatePoolRequest) (*quotav1.Pool, error) {
	return as[*quotav1.Pool](s.create(ctx, r, r.GetPool(), "", r.GetPoolId()))
}

// UpdatePool changes the fields in the mask, all if it is empty.
func (s *Server) UpdatePool(ctx context.Context, r *quotav1.UpdatePoolRequest) (*quotav1.Pool, error) {
	return as[*quotav1.Pool](s.update(ctx, r, r.GetPool()))
}

// DeletePool deletes a pool; with force also the quotas and limits that need it.
func (s *Server) DeletePool(ctx context.Context, r *quotav1.DeletePoolRequest) (*emptypb.Empty, error) {
	return s.remove(ctx, resource.Pool, r, r.GetForce())
}

// GetPlan returns a plan with its status.
func (s *Server) GetPlan(ctx context.Context, r *quotav1.GetPlanRequest) (*quotav1.Plan, error) {
	return as[*quotav1.Plan](s.get(ctx, resource.Plan, r, r.GetName()))
}

// ListPlans returns a page of plans in the order of their names.
func (s *Server) ListPlans(ctx context.Context, r *quotav1.ListPlansRequest) (*quotav1.ListPlansResponse, error) {
	page, next, err := s.list(ctx, resource.Plan, r, "")
	if err != nil {
		return nil, err
	}
	return &quotav1.ListPlansResponse{Plans: typed[*quotav1.Plan](page), NextPageToken: next}, nil
}

// CreatePlan stores a plan that must not exist.
func (s *Server) CreatePlan(ctx context.Context, r *quotav1.CreatePlanRequest) (*quotav1.Plan, error) {
	return as[*quotav1.Plan](s.create(ctx, r, r.GetPlan(), "", r.GetPlanId()))
}

// UpdatePlan changes the fields in the mask, all if it is empty.
func (s *Server) UpdatePlan(ctx context.Context, r *quotav1.UpdatePlanRequest) (*quotav1.Plan, error) {
	return as[*quotav1.Plan](s.update(ctx, r, r.GetPlan()))
}

// DeletePlan deletes a plan that no tenant names; with force also its quotas, limits and overrides.
func (s *Server) DeletePlan(ctx context.Context, r *quotav1.DeletePlanRequest) (*emptypb.Empty, error) {
	return s.remove(ctx, resource.Plan, r, r.GetForce())
}

// GetTenant returns a tenant.
func (s *Server) GetTenant(ctx context.Context, r *quotav1.GetTenantRequest) (*quotav1.Tenant, error) {
	return as[*quotav1.Tenant](s.get(ctx, resource.Tenant, r, r.GetName()))
}

// ListTenants returns a page of tenants in the order of their names.
func (s *Server) ListTenants(ctx context.Context, r *quotav1.ListTenantsRequest) (*quotav1.ListTenantsResponse, error) {
	if tenants, only := s.readsOnly(ctx); only {
		page, err := s.tenants(ctx, r, tenants)
		return &quotav1.ListTenantsResponse{Tenants: typed[*quotav1.Tenant](page)}, status(err)
	}
	page, next, err := s.list(ctx, resource.Tenant, r, "")
	if err != nil {
		return nil, err
	}
	return &quotav1.ListTenantsResponse{Tenants: typed[*quotav1.Tenant](page), NextPageToken: next}, nil
}

// CreateTenant stores a tenant that must not exist.
func (s *Server) CreateTenant(ctx context.Context, r *quotav1.CreateTenantRequest) (*quotav1.Tenant, error) {
	return as[*quotav1.Tenant](s.create(ctx, r, r.GetTenant(), "", r.GetTenantId()))
}

// UpdateTenant changes the fields in the mask, all if it is empty.
func (s *Server) UpdateTenant(ctx context.Context, r *quotav1.UpdateTenantRequest) (*quotav1.Tenant, error) {
	return as[*quotav1.Tenant](s.update(ctx, r, r.GetTenant()))
}

// DeleteTenant deletes a tenant; with force also its quotas and limits.
func (s *Server) DeleteTenant(ctx context.Context, r *quotav1.DeleteTenantRequest) (*emptypb.Empty, error) {
	return s.remove(ctx, resource.Tenant, r, r.GetForce())
}

// GetQuota returns a quota with its status.
func (s *Server) GetQuota(ctx context.Context, r *quotav1.GetQuotaRequest) (*quotav1.Quota, error) {
	return as[*quotav1.Quota](s.get(ctx, resource.Quota, r, r.GetName()))
}

// ListQuotas returns a page of the quotas of a tenant or a plan, or of all of these.
func (s *Server) ListQuotas(ctx context.Context, r *quotav1.ListQuotasRequest) (*quotav1.ListQuotasResponse, error) {
	page, next, err := s.list(ctx, resource.Quota, r, r.GetParent())
	if err != nil {
		return nil, err
	}
	return &quotav1.ListQuotasResponse{Quotas: typed[*quotav1.Quota](page), NextPageToken: next}, nil
}

// CreateQuota stores a quota that must not exist.
func (s *Server) CreateQuota(ctx context.Context, r *quotav1.CreateQuotaRequest) (*quotav1.Quota, error) {
	return as[*quotav1.Quota](s.create(ctx, r, r.GetQuota(), r.GetParent(), r.GetQuotaId()))
}

// UpdateQuota changes the fields in the mask, all if it is empty.
func (s *Server) UpdateQuota(ctx context.Context, r *quotav1.UpdateQuotaRequest) (*quotav1.Quota, error) {
	return as[*quotav1.Quota](s.update(ctx, r, r.GetQuota()))
}

// DeleteQuota deletes a quota.
func (s *Server) DeleteQuota(ctx context.Context, r *quotav1.DeleteQuotaRequest) (*emptypb.Empty, error) {
	return s.remove(ctx, resource.Quota, r, false)
}

// GetLimit returns a limit.
func (s *Server) GetLimit(ctx context.Context, r *quotav1.GetLimitRequest) (*quotav1.Limit, error) {
	return as[*quotav1.Limit](s.get(ctx, resource.Limit, r, r.GetName()))
}

// ListLimits returns a page of the limits of a tenant or a plan, or of all of these.
func (s *Server) ListLimits(ctx context.Context, r *quotav1.ListLimitsRequest) (*quotav1.ListLimitsResponse, error) {
	page, next, err := s.list(ctx, resource.Limit, r, r.GetParent())
	if err != nil {
		return nil, err
	}
	return &quotav1.ListLimitsResponse{Limits: typed[*quotav1.Limit](page), NextPageToken: next}, nil
}

// CreateLimit stores a limit that must not exist.
func (s *Server) CreateLimit(ctx context.Context, r *quotav1.CreateLimitRequest) (*quotav1.Limit, error) {
	return as[*quotav1.Limit](s.create(ctx, r, r.GetLimit(), r.GetParent(), r.GetLimitId()))
}

// UpdateLimit changes the fields in the mask, all if it is empty.
func (s *Server) UpdateLimit(ctx context.Context, r *quotav1.UpdateLimitRequest) (*quotav1.Limit, error) {
	return as[*quotav1.Limit](s.update(ctx, r, r.GetLimit()))
}

// DeleteLimit deletes a limit, with force also its overrides.
func (s *Server) DeleteLimit(ctx context.Context, r *quotav1.DeleteLimitRequest) (*emptypb.Empty, error) {
	return s.remove(ctx, resource.Limit, r, r.GetForce())
}

// GetOverride returns an override.
func (s *Server) GetOverride(ctx context.Context, r *quotav1.GetOverrideRequest) (*quotav1.Override, error) {
	return as[*quotav1.Override](s.get(ctx, resource.Override, r, r.GetName()))
}

// ListOverrides returns a page of the overrides of a limit, of a tenant, or of all.
func (s *Server) ListOverrides(ctx context.Context, r *quotav1.ListOverridesRequest) (*quotav1.ListOverridesResponse,
	error) {
	page, next, err := s.list(ctx, resource.Override, r, r.GetParent())
	if err != nil {
		return nil, err
	}
	return &quotav1.ListOverridesResponse{Overrides: typed[*quotav1.Override](page), NextPageToken: next}, nil
}

// CreateOverride stores an override that must not exist.
func (s *Server) CreateOverride(ctx context.Context, r *quotav1.CreateOverrideRequest) (*quotav1.Override, error) {
	return as[*quotav1.Override](s.create(ctx, r, r.GetOverride(), r.GetParent(), r.GetOverrideId()))
}

// UpdateOverride changes the fields in the mask, all if it is empty.
func (s *Server) UpdateOverride(ctx context.Context, r *quotav1.UpdateOverrideRequest) (*quotav1.Override, error) {
	return as[*quotav1.Override](s.update(ctx, r, r.GetOverride()))
}

// DeleteOverride deletes an override.
func (s *Server) DeleteOverride(ctx context.Context, r *quotav1.DeleteOverrideRequest) (*emptypb.Empty, error) {
	return s.remove(ctx, resource.Override, r, false)
}
