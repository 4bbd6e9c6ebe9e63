package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/titrate/titrate/e2e/robustness/check"
)

// invalid are documents that must be refused.
var invalid = []string{
	`{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/spare/limits/bad, spec: {rate: -5/s}}`,
	`{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/spare/limits/bad, spec: {rate: 1e400/s}}`,
	`{apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/api, spec: {capacity: -1}}`,
	`{apiVersion: titrate.dev/v1alpha1, kind: Quota, name: tenants/nobody/quotas/api, spec: {max: 5}}`,
	`{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/spare, spec: {weight: .nan}}`,
}

var invalidConfiguration = Kind{
	Name:    "invalid-configuration",
	Does:    "a document that must be refused, applied with a valid document that would block a tenant",
	Touches: "configuration", Grace: check.Grace{Fair: true},
	Draw: func(r *rand.Rand, s Scene) Fault {
		bad := one(r, invalid)
		return &simple{"apply " + bad, "", func(ctx context.Context) error {
			const blocks = `{apiVersion: titrate.dev/v1alpha1, kind: Quota, ` +
				`name: tenants/steady/quotas/api, spec: {max: 1}}`
			if s.Configure(ctx, blocks+"\n---\n"+bad) == nil {
				return fmt.Errorf("%w: %s", ErrAccepted, bad)
			}
			return nil
		}, func(context.Context) error { return nil }}
	},
}

// ErrAccepted is returned if a document had to be refused, and was accepted.
var ErrAccepted = errors.New("an invalid document was accepted")

// ErrUnreachable is returned if no coordinator has answered a call.
var ErrUnreachable = errors.New("no coordinator has answered")

var validConfiguration = Kind{
	Name: "valid-configuration", Does: "a tenant and a limit added, and the limit deleted later",
	Touches: "configuration", Longest: 5 * second, Grace: check.Grace{Fair: true},
	Draw: func(r *rand.Rand, s Scene) Fault {
		name := fmt.Sprintf("tenants/spare/limits/of-%d", r.IntN(3))
		return &simple{"apply and delete " + name, "", func(ctx context.Context) error {
			return reached(s.Configure(ctx, fmt.Sprintf(spare, name, 1+r.IntN(50))))
		}, func(ctx context.Context) error { return reached(s.Delete(ctx, name)) }}
	},
}

// spare is a tenant without requests, with a limit of a name and a rate.
const spare = `
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/spare, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: %s, spec: {rate: %d/s, burst: 20}}`

// reached returns nil for the error of a call that no coordinator could answer.
func reached(err error) error {
	if errors.Is(err, ErrUnreachable) {
		return nil
	}
	return err
}
