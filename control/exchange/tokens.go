package exchange

import "github.com/titrate/titrate/control/grant"

// TokenRequests are what gateways ask the owners of keys, see package grant. The key, and what
// the limit allows it, come with each of them: an owner knows no configuration.
type TokenRequests struct {
	List []TokenRequest
}

// TokenRequest is one of them.
type TokenRequest struct {
	Key    uint64
	Rate   float64 // cost units/s, > 0
	Burst  int64   // millionths of a cost unit
	Strict bool
	grant.Request
}

// TokenAnswers are what owners answer a gateway, in their order: all Grants, then all Recalls.
// Any order does, see package grant.
type TokenAnswers struct {
	// Moved says that keys have other owners than before, or that owners have begun a new
	// life: the gateway tells all owners what it knows.
	Moved   bool
	Grants  []TokenGrant
	Recalls []TokenRecall
}

// TokenGrant is a grant for a key.
type TokenGrant struct {
	Key uint64
	grant.Grant
}

// TokenRecall is a recall of what was granted for a key.
type TokenRecall struct {
	Key uint64
	grant.Recall
}

// Add appends later answers to a.
func (a *TokenAnswers) Add(later *TokenAnswers) {
	a.Moved = a.Moved || later.Moved
	a.Grants = append(a.Grants, later.Grants...)
	a.Recalls = append(a.Recalls, later.Recalls...)
}
