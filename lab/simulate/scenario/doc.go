// Package scenario describes what `titrate-lab simulate` plays: gateways and the network between them, pools,
// tenants with limits, clients with a demand over time, and faults at given times.
//
// # Model
//
// A [Scenario] is data: built in code, or read from documents by package read. Its pools, tenants, quotas and
// limits are the resources that `titrate apply` takes. They are compiled by the code that agents and the
// coordinator run, so that the simulation has the same configuration in force ([Configuration]).
//
// Times are counted from the scenario's start. A client has a demand, a rate over time that is turned into
// arrivals evenly or as a Poisson process. It has a route, the rule by which each of its requests finds a
// gateway. Gateways that are down get nothing: a pinned client goes to the next one in the list, as behind a
// load balancer. docs/simulate.md has the format of scenario files.
//
// # Invariant
//
//   - What [Scenario.Check] lets pass can be simulated.
package scenario
