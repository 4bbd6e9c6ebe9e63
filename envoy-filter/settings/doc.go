// Package settings reads what an operator writes into Envoy's configuration
// for Titrate: the bootstrap extension's settings, one set per process, and the
// HTTP filter's, one per filter chain, with overrides per virtual host or route.
//
// Envoy hands a Struct over as JSON. Reading is strict: an unknown field, a
// wrong type or a value out of range is an error that names the field by its
// path ("client[1].header"), so that Envoy refuses the new configuration and
// keeps the previous one. Nothing is half-read.
//
// # Sources
//
// Tenant, client, pool, cost and each identity are an ordered list of sources;
// the first one that gives a non-empty value wins. A single source may stand
// without the list's brackets.
//
//	{"header": "x-tenant"}        the first value of a request header
//	{"cookie": "session"}         the first cookie of that name
//	{"query": "api_key"}          the first query parameter of that name, decoded
//	{"metadata": {namespace, key}} a string in dynamic metadata
//	{"filter_state": "user"}      a string in filter state
//	{"mtls": "uri_san"}           of the client's certificate
//	{"source_address": {}}        the peer's address, or who trusted proxies say it is
//	{"route": true}               the name of the matched route
//	{"virtual_host": true}, {"cluster": true}   likewise
//	{"literal": "acme"}           always this
//
// Values of clients and identities become names, which tell the source as well as
// the value (name.go): a client of one source is never one of another.
//
// # Identities and classes
//
// Identities give limits other things than the client to tell requests apart by;
// classes give them kinds of requests to be meant for. A limit names them; what
// no limit in force names costs nothing per request.
//
// # Answers
//
// What clients, the upstream and access logs are told of a decision (answer.go).
// An override leaves unset what it does not say; the filter's defaults are filled
// in when it is read, so one of the two always says it.
//
// A per-route configuration overrides field by field, identities and classes
// name by name: what it leaves out is the filter's.
package settings
