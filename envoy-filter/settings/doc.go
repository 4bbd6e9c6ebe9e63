// Package settings reads Titrate's settings in Envoy's configuration. They are the bootstrap extension's
// settings, one set per process, and the HTTP filter's, one per filter chain, with overrides per virtual host
// or route.
//
// Envoy hands a Struct over as JSON. Reading is strict. An unknown field, a wrong type or a
// value out of range is an error that names the field by its path ("client[1].header"). So
// Envoy refuses the new configuration and keeps the previous one. Nothing is half-read.
//
// # Sources
//
// Tenant, client, pool, cost and each identity are an ordered list of sources; the first source with a
// non-empty value wins. A single source may be written without the list's brackets.
//
//	{"header": "x-tenant"}        the first value of a request header
//	{"cookie": "session"}         the first cookie of that name
//	{"query": "api_key"}          the first query parameter of that name, decoded
//	{"metadata": {namespace, key}} a string in dynamic metadata
//	{"filter_state": "user"}      a string in filter state
//	{"mtls": "uri_san"}           of the client's certificate
//	{"source_address": {}}        the peer's address, or the address that trusted proxies give
//	{"route": true}               the name of the matched route
//	{"virtual_host": true}, {"cluster": true}   the name of the virtual host, the cluster
//	{"literal": "acme"}           always this
//
// Values of clients and identities become names with source and value (name.go), so a
// client of one source is never a client of another.
//
// # Costs
//
// A request has a plain cost, and up to four with names, by which limits and pools count that name them (cost.go).
// A response may say what a request has cost: in a header, as the usage of a language model (usage.go), or by
// its time and size.
//
// # Identities and classes
//
// An identity is a property other than the client that limits can count by. A class is a kind of requests that
// limits can apply to. A limit refers to identities and classes by name. An identity or class that no limit in
// force refers to costs nothing per request.
//
// # Answers
//
// Answers are the parts of a decision that clients, the upstream and access logs see (answer.go). A field that
// an override does not have is unset. The filter's unset fields get their defaults when the filter is read, so
// one of the two always has a value.
//
// A per-route configuration overrides field by field, identities and classes name by name, costs as a whole.
// Fields that it leaves out keep the filter's values.
package settings
