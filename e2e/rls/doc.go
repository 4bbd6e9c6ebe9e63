// Package rls compares the rate limit service of the agent with envoyproxy/ratelimit: with the same
// configuration and the same random requests, and behind Envoy's own rate limit filter.
package rls
