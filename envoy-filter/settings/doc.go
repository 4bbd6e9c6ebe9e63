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
// Tenant, client, pool and cost are each an ordered list of sources; the first
// one that gives a non-empty value wins. A single source may stand without the
// list's brackets.
//
//	{"header": "x-tenant"}   the first value of a request header
//	{"literal": "acme"}      always this
//	{"route": true}          the name of the matched route
//
// A per-route configuration overrides field by field: what it leaves out is
// the filter's.
package settings
