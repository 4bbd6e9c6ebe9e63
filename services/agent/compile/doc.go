// Package compile turns the resources that the coordinator streams (pools,
// tenants, quotas, limits) into the one configuration that a filter can apply.
//
// # Model
//
// A [Book] is the set of resources by name, kept current by changes; a full snapshot is a change of an empty book.
// [Book.Change] compiles the tenants that a change names, and returns what that makes of the configuration: pure and
// deterministic (sorted by name). The invalid parts of a tenant alone are left out and named, so that one tenant's
// mistake does not hold up the others. A bad pool refuses the change, and the book stays as it was. The functions of
// the API read and check a resource (resource.LimitConfig and its likes), the check of the whole is the gateways'
// (config.Delta.LeaveOut).
//
//	resource                    becomes
//	pools/p                     Pool, with the default queue where none is given
//	tenants/t                   Tenant; weight 1 unless given
//	tenants/t/quotas/p          a Quota in tenant t
//	tenants/t/limits/l          a Limit in tenant t
//	tenants/-/limits/l          a default, which gateways give every tenant that has no l
//
// The tenant "-" is always there: it stands for unknown tenants. A quota or a limit of a tenant that has no resource
// makes one of weight 1, since the order in which an administrator creates them must not matter.
//
// # Units
//
// Rates become cost units per second: 600/min is 10. Queues: a pool's default is VARIABLE_STRUCTURE with 50 ms delay
// target, 1 s longest wait, 1024 requests; a limit without a queue is POLICE.
//
// A change costs O(its tenants' resources), and O(all resources) if pools come or go or if
// defaults change: every tenant may then mean something else.
package compile
