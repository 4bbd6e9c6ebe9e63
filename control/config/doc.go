// Package config is what an administrator has configured, as gateways have it: pools,
// tenants, quotas and limits. Agent, link, filter, engine and simulator all use these
// types; there are no others of the same facts.
//
// # Model
//
// A [Config] is made by the agent from the resources of the API, travels over the link
// to the filter as JSON, and is put in force by the engine (control/limiter). It is data:
// nobody changes it once it is made.
//
// Here, and nowhere else, are
//
//   - the defaults ([Queue.WithDefaults], [RateBurst.WithDefaults], DefaultWeight),
//   - the bounds of the numbers ([Config.Validate]; the API has narrower ones of its own),
//   - the names of laws, policies and modes, as the API, documents and the filter's
//     settings spell them.
//
// # JSON
//
// The JSON form is part of the protocol between agent and filter, which may be of two
// releases. A name that is left out is the first of its kind; a Max that is left out is
// unbounded.
//
// A reader notes limits, quotas and pools that say something which it does not know
// ([Limit.Unknown]). They are not valid: a field may narrow what a limit means. Unknown
// fields elsewhere are ignored. So whatever narrows a limit is a new field of Limit or
// Quota, and never of Tenant or Pool.
//
// # Invariants
//
//   - After [Config.LeaveOut], which takes out what is not valid of tenants, Validate
//     finds at most a pool.
//   - A configuration that Validate accepts comes back from JSON as it was.
//
// Everything is linear in the size of the configuration.
package config
