// Package rls tests the rate limit service of the agent against the real thing: beside
// envoyproxy/ratelimit, with the same configuration and the same requests drawn at random,
// and behind Envoy's own rate limit filter.
package rls
