// Package translate turns the configuration of envoyproxy/ratelimit into resources of
// Titrate, for gateways that have the filter.
//
// # Model
//
//	ratelimit                            Titrate
//	domain shop                          tenants/shop
//	a node with a limit                  tenants/shop/limits/NODE
//	  600 per minute                     rate 600/min, burst 600
//	  7000 per week, month or year       a quota of 7000 per week, month or year of the calendar
//	  a key without a value              the limit counts by the identity KEY
//	  a value, or a pattern              the limit applies to the class KEY-VALUE (with a number behind it,
//	                                     if other values give this name, too)
//	  neither but values                 key TENANT: all requests of the class together
//	  a value next to a bare key         an override of that key's limit; without a limit: no limit
//	  shadow_mode                        mode SHADOW
//
// Identities and classes are names: the filter's settings say where in a request they are, as Envoy's rate limit
// actions say it for descriptors. Result lists the needed names.
//
// # What has no counterpart
//
// It is left out, or means something else, and is noted with its file and line: limits by several keys
// at once, quota_mode, replaces, metadata, rates that are too large. Where several limits apply
// to a request, Titrate holds all of them and ratelimit the most specific one. A request
// whose descriptor has more entries than a node is none of this node's in ratelimit; here
// its class and identity decide.
package translate
