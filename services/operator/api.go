package operator

import (
	"context"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// get reads a resource.
func get(ctx context.Context, api quotav1.QuotaServiceClient, kind resource.Kind, name string) (resource.Message,
	error) {
	switch kind {
	case resource.Pool:
		return api.GetPool(ctx, &quotav1.GetPoolRequest{Name: name})
	case resource.Plan:
		return api.GetPlan(ctx, &quotav1.GetPlanRequest{Name: name})
	case resource.Tenant:
		return api.GetTenant(ctx, &quotav1.GetTenantRequest{Name: name})
	case resource.Quota:
		return api.GetQuota(ctx, &quotav1.GetQuotaRequest{Name: name})
	default:
		return api.GetLimit(ctx, &quotav1.GetLimitRequest{Name: name})
	}
}

// remove deletes a resource that has an etag; a missing resource is no error.
func remove(ctx context.Context, api quotav1.QuotaServiceClient, kind resource.Kind, name, etag string) (err error) {
	switch kind {
	case resource.Pool:
		_, err = api.DeletePool(ctx, &quotav1.DeletePoolRequest{Name: name, Etag: etag, AllowMissing: true})
	case resource.Plan:
		_, err = api.DeletePlan(ctx, &quotav1.DeletePlanRequest{Name: name, Etag: etag, AllowMissing: true})
	case resource.Tenant:
		_, err = api.DeleteTenant(ctx, &quotav1.DeleteTenantRequest{Name: name, Etag: etag, AllowMissing: true})
	case resource.Quota:
		_, err = api.DeleteQuota(ctx, &quotav1.DeleteQuotaRequest{Name: name, Etag: etag, AllowMissing: true})
	default:
		_, err = api.DeleteLimit(ctx, &quotav1.DeleteLimitRequest{Name: name, Etag: etag, AllowMissing: true})
	}
	return err
}
