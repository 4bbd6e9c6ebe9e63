// Package bykind calls the methods that the admin API has for each kind of resource.
package bykind

import (
	"context"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// Get reads a resource of a kind.
func Get(ctx context.Context, api quotav1.QuotaServiceClient, kind resource.Kind, name string) (resource.Message,
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
	case resource.Override:
		return api.GetOverride(ctx, &quotav1.GetOverrideRequest{Name: name})
	default:
		return api.GetLimit(ctx, &quotav1.GetLimitRequest{Name: name})
	}
}

// Deletion has the fields of a request to delete a resource. Force does not count for a quota or an override.
type Deletion struct {
	Name, Etag, RequestID string
	AllowMissing, Force   bool
}

// Delete deletes a resource of a kind.
func Delete(ctx context.Context, api quotav1.QuotaServiceClient, kind resource.Kind, d Deletion) (err error) {
	switch kind {
	case resource.Pool:
		_, err = api.DeletePool(ctx, &quotav1.DeletePoolRequest{
			Name: d.Name, Etag: d.Etag, RequestId: d.RequestID, AllowMissing: d.AllowMissing, Force: d.Force})
	case resource.Plan:
		_, err = api.DeletePlan(ctx, &quotav1.DeletePlanRequest{
			Name: d.Name, Etag: d.Etag, RequestId: d.RequestID, AllowMissing: d.AllowMissing, Force: d.Force})
	case resource.Tenant:
		_, err = api.DeleteTenant(ctx, &quotav1.DeleteTenantRequest{
			Name: d.Name, Etag: d.Etag, RequestId: d.RequestID, AllowMissing: d.AllowMissing, Force: d.Force})
	case resource.Quota:
		_, err = api.DeleteQuota(ctx, &quotav1.DeleteQuotaRequest{
			Name: d.Name, Etag: d.Etag, RequestId: d.RequestID, AllowMissing: d.AllowMissing})
	case resource.Override:
		_, err = api.DeleteOverride(ctx, &quotav1.DeleteOverrideRequest{
			Name: d.Name, Etag: d.Etag, RequestId: d.RequestID, AllowMissing: d.AllowMissing})
	default:
		_, err = api.DeleteLimit(ctx, &quotav1.DeleteLimitRequest{
			Name: d.Name, Etag: d.Etag, RequestId: d.RequestID, AllowMissing: d.AllowMissing, Force: d.Force})
	}
	return err
}
