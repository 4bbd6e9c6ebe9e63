package exchange

import "github.com/titrate/titrate/control/grant"

// TokenRequests are what gateways ask the owners of keys, see package grant.
type TokenRequests struct {
	List []TokenRequest
}

// TokenRequest is one of them.
type TokenRequest struct {
	Key uint64
	KeyName
	grant.Request
}

// KeyName says whose key of which limit a key is. It comes with the first request to an owner: one
// that names no owner, or registers. The owner takes what the limit allows from its own
// configuration, and the hash proves the name; so no message can change what a limit allows.
type KeyName struct {
	Tenant, Limit string
	Client        string // "" for a limit of the tenant as a whole, too
}

// MaxKeyName is the most bytes of a KeyName: it must fit into a packet with its request. An owner
// is not told of a key with a longer one, and the ledger decides there.
const MaxKeyName = 1024

// Named reports whether a request has to say whose key it is about.
func (q *TokenRequest) Named() bool { return !q.Forgotten && (q.Owner == 0 || q.Register) }

// Len is its length in bytes.
func (n *KeyName) Len() int { return len(n.Tenant) + len(n.Limit) + len(n.Client) }

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
