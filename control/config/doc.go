// Package config has the configuration that gateways put in force: pools, tenants, quotas
// and limits. Agent, link, filter, engine and simulator all use these types; there are no
// others of the same facts.
//
// # Model
//
// A [Config] is made by the agent from the resources of the API. It travels over the link
// to the filter as JSON, and is put in force by the engine (control/limiter). It is data:
// nobody changes it once it is made. Where it is large a change of it travels as a [Delta]
// instead; a [Set] is a configuration that deltas keep current. Settings of many tenants are in
// it once: the defaults, and the plans that tenants name.
//
// Here, and nowhere else, are
//
//   - the defaults ([Queue.WithDefaults], [RateBurst.WithDefaults], DefaultWeight),
//   - the bounds of the numbers ([Config.Validate]; the API has narrower ones),
//   - the names of laws, policies and modes, as the API, documents and the filter's
//     settings spell them.
//
// # JSON
//
// The JSON form is part of the protocol between agent and filter, which may be of two
// releases. A name that is left out is the first of its kind; a Max that is left out is
// unbounded.
//
// A reader notes limits and quotas with a field or a name that it does not know, and pools
// with such a name ([Limit.Unknown]). They are not valid, since the field may narrow what
// the limit means. Unknown fields of other types are ignored. So a field that narrows a
// limit must be a field of Limit or Quota, never of Tenant or Pool.
//
// # Invariants
//
//   - [Config.LeaveOut] takes out the tenants, limits and quotas that are not valid. After
//     it, Validate can only find a fault in a pool.
//   - A configuration that Validate accepts comes back from JSON as it was.
//   - Deltas that are applied one after the other, or taken together by [Delta.Then], lead to
//     the configuration that they were made from.
//
// Everything is linear in the size of the configuration, or of the delta.
package config
