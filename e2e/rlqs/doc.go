// Package rlqs assigns quotas to real Envoys by their own rate limit quota filter: two agents, three Envoys, and a
// coordinator, as processes that are killed and started again.
package rlqs
