package exchange

import "github.com/titrate/titrate/control/grant"

// Tokens are granted by owners of one site, or of all sites. Each have desks, stores and messages of their own.
const (
	OfSite = iota
	OfAll  // for limits of the scope GLOBAL
	Scopes
)

// ScopeOf says of which owners a message is.
func ScopeOf(global bool) int {
	if global {
		return OfAll
	}
	return OfSite
}

// TokenRequests are a gateway's requests to the owners of keys, see package grant.
type TokenRequests struct {
	Global bool // to the owners of all sites: for limits of that scope
	// Registered is the Owners.View of which all owners know by now what the gateway holds; 0: not
	// all of them do.
	Registered uint64
	List       []TokenRequest
	Answers    []PartAnswer
	// Divides repeats the latest Division once the gateway goes by it; nil: there was none since.
	Divides *Division
}

// Empty reports whether there is nothing to send.
func (q *TokenRequests) Empty() bool {
	return len(q.List)+len(q.Answers) == 0 && q.Registered == 0 && q.Divides == nil
}

// PartAnswer is a gateway's answer to the owner of a key, see package grant.
type PartAnswer struct {
	Key uint64
	grant.PartAnswer
}

// Spend is a cost in a PartAnswer.
type Spend = grant.Spend

// PartCall is a call of the standing part of a key.
type PartCall struct {
	Key uint64
	grant.PartCall
}

// MaxGateways bounds the number of gateways by which buckets are divided.
const MaxGateways = 1 << 20

// TokenRequest is one of them.
type TokenRequest struct {
	Key uint64
	KeyName
	grant.Request
}

// KeyName says whose key of which limit a key is. It comes with the first request to an owner: a
// request that names no owner, or registers. The owner takes what the limit allows from its own
// configuration, and the hash proves the name; so no message can change what a limit allows.
type KeyName struct {
	Tenant, Limit string
	Client        string // "" for a limit of the tenant as a whole, too
	Plan          string // of the limit's plans; "" for a request without one. Only of a limit with a rate
}

// MaxKeyName is the most bytes of a KeyName: it must fit into a packet with its request. An owner
// is not asked about a key with a longer one: there the ledger decides.
const MaxKeyName = 1024

// Named reports whether a request has to say whose key it is about.
func (q *TokenRequest) Named() bool { return !q.Forgotten && (q.Owner == 0 || q.Register) }

// Len is its length in bytes.
func (n *KeyName) Len() int { return len(n.Tenant) + len(n.Limit) + len(n.Client) + len(n.Plan) }

// TokenAnswers are the answers of owners to a gateway, in their order: all Grants, then all
// Recalls. Any order does, see package grant.
type TokenAnswers struct {
	Global bool // of the owners of all sites: for limits of that scope
	// Owners, if its List is not empty, are the owners from now on: the gateway sends the new owner of a
	// key what it knows of the key.
	Owners  Owners
	Grants  []TokenGrant
	Recalls []TokenRecall
	Calls   []PartCall
	// Division, if it is given, is in force from now on, for DivisionFor. An agent repeats it once a second.
	Division *Division
}

// Division says by how many gateways this one may divide buckets, see package grant.
type Division struct {
	Gateways uint32 // at most MaxGateways; 0: it has no standing parts
	Full     bool   // if it has had none so far, they begin full
}

// DivisionFor is the time for which a Division holds, nanoseconds: an agent that stands still is gone for others then.
const DivisionFor = int64(4e9)

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

// Add appends later answers to a, in the place of earlier ones of the same keys if there are many. A
// grant and a recall say all that the ones before did.
func (a *TokenAnswers) Add(later *TokenAnswers) {
	if len(later.Owners.List) > 0 {
		a.Owners = later.Owners
	}
	a.Grants = newest(append(a.Grants, later.Grants...), len(later.Grants), func(g *TokenGrant) uint64 { return g.Key })
	a.Recalls = newest(append(a.Recalls, later.Recalls...), len(later.Recalls),
		func(r *TokenRecall) uint64 { return r.Key })
	a.Calls = newest(append(a.Calls, later.Calls...), len(later.Calls), func(c *PartCall) uint64 { return c.Key })
	if later.Division != nil {
		a.Division = later.Division
	}
}

// dense is from how many records on only the newest of each key are kept.
const dense = 1024

// newest keeps the last record of each key, each time the list has passed another multiple of dense.
func newest[T any](list []T, added int, key func(*T) uint64) []T {
	if len(list)/dense == (len(list)-added)/dense {
		return list
	}
	last := make(map[uint64]int, len(list))
	for i := range list {
		last[key(&list[i])] = i
	}
	kept := list[:0]
	for i := range list {
		if last[key(&list[i])] == i {
			kept = append(kept, list[i])
		}
	}
	return kept
}

// tokenBytes bounds the encoded size of a record of tokens without the name of its key, bytes.
const tokenBytes = 256

// Parts cuts a into messages of at most so many bytes each, not counting a list of owners.
func (a *TokenAnswers) Parts(bytes int) []*TokenAnswers {
	grants, recalls, calls := a.Grants, a.Recalls, a.Calls
	parts := []*TokenAnswers{}
	for first := true; first || len(grants)+len(recalls)+len(calls) > 0; first = false {
		p, room := &TokenAnswers{Global: a.Global}, max(1, bytes/tokenBytes)
		if first {
			p.Owners, p.Division = a.Owners, a.Division
		}
		p.Grants, grants, room = cut(grants, room)
		p.Recalls, recalls, room = cut(recalls, room)
		p.Calls, calls, _ = cut(calls, room)
		parts = append(parts, p)
	}
	return parts
}

// Parts is the same for requests: the last part says what is registered.
func (q *TokenRequests) Parts(bytes int) (parts []*TokenRequests) {
	for _, list := range split(q.List, bytes, func(r *TokenRequest) int { return tokenBytes + r.Len() }) {
		parts = append(parts, &TokenRequests{Global: q.Global, List: list})
	}
	if len(q.Answers) > 0 {
		for _, list := range split(q.Answers, bytes, func(*PartAnswer) int { return tokenBytes }) {
			parts = append(parts, &TokenRequests{Global: q.Global, Answers: list})
		}
	}
	parts[len(parts)-1].Divides = q.Divides
	parts[len(parts)-1].Registered = q.Registered
	return parts
}
