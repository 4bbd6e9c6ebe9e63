// Package operator makes Kubernetes' custom resources Pool, Tenant, Quota and Limit the
// configuration of a coordinator, and says in their status what became of each.
//
// # Model
//
// A custom resource is a document (package document) with Kubernetes' metadata:
//
//	apiVersion: titrate.dev/v1alpha1
//	kind: Quota
//	metadata: {name: acme-api}
//	name: tenants/acme/quotas/api        the resource that it stands for; never changes
//	spec: {guaranteed: 20}
//
// The operator that leads makes passes. A pass lists all objects, reads them as documents,
// and applies all that can be read, in one transaction. If the transaction is refused, the API
// names each object that it refuses, and the others are applied in a second transaction. So an
// object does not depend on the order of creation, and a wrong one does not hold up others.
//
//	list ─► owners ─► finalizers ─► apply, without the refused ─► deletions ─► status
//
// A pass is due when any object has changed, again after RetryEvery if something failed, and
// every Resync, which puts back what somebody has changed by other means. Refused objects are
// tried again after RetryEvery, and then after twice the time before, up to Resync; any change
// of an object has all of them tried at once.
//
// # Owners
//
// What is applied belongs to Options.Set, as with apply --set: a resource of another set is
// refused, and stays as it is. Of several objects for one resource the oldest is the owner;
// the others say so in their status. Where the owner is deleted the next one takes over.
//
// # Deletion
//
// An object has a finalizer before it is applied. When it is deleted, its resource is
// deleted first, if it belongs to the set and no other object stands for it. As long as the
// API refuses that, because other resources need it, the object stays, with the sentence of
// the API in its status.
//
// # Several operators
//
// A Lease says who leads. A leader renews it before each step of a pass that takes long, and
// ends the pass if another may have led meanwhile: what it has listed is then of the past.
//
// # Failures
//
// While the coordinator or the API server cannot be reached, statuses stay as they are; the
// pass is counted as failed, logged, and made again. What was applied stays in force.
package operator
