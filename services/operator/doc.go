// Package operator makes Kubernetes' custom resources Pool, Tenant, Quota and Limit the configuration of a
// coordinator, and writes the outcome into the status of each.
//
// # Model
//
// A custom resource is a document (package document) with Kubernetes' metadata:
//
//	apiVersion: titrate.dev/v1alpha1
//	kind: Quota
//	metadata: {name: acme-api}
//	name: tenants/acme/quotas/api        the resource that it configures; never changes
//	spec: {guaranteed: 20}
//
// The operator that leads makes passes. A pass lists all objects, reads them as documents, and applies all that
// can be read, in one transaction. If the transaction is refused, the API names each object that it refuses,
// and the others are applied in a second transaction. So the order of creation does not matter, and a wrong
// object does not block others.
//
//	list ─► owners ─► finalizers ─► apply, without the refused ─► deletions ─► status
//
// A pass is due when any object has changed, again after RetryEvery if something failed, and every Resync,
// which restores resources that were changed by other means. Refused objects are tried again after RetryEvery,
// and then after twice the time before, up to Resync; any change of an object has all of them tried at once.
//
// # Owners
//
// Applied resources belong to Options.Set, as with apply --set: a resource of another set is refused, and stays
// as it is. Of several objects for one resource the oldest is the owner; the others say so in their status.
// Where the owner is deleted the next one takes over.
//
// # Deletion
//
// An object has a finalizer before it is applied. When it is deleted, its resource is deleted first, if it
// belongs to the set and no other object configures it. As long as the API refuses this, because other
// resources need it, the object stays, with the API's message in its status.
//
// # Several operators
//
// A Lease names the leader. The leader renews the Lease before each step of a pass that takes long, and ends
// the pass if another operator may have led meanwhile. Its list may then be out of date.
//
// # Failures
//
// While the coordinator or the API server cannot be reached, statuses stay as they are; the pass is counted as
// failed, logged, and made again. Applied resources stay in force.
package operator
