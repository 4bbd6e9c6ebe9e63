// Package lock has the mutexes of the limiter and the order in which a thread may lock
// them: a lock only while it holds locks of a lower rank. So never two of the same rank.
//
//	rank  lock    guards
//	1     Naming  the names of identities and classes; one Apply or Name at a time
//	2     Work    the slow callers: Tick, Drain, Claims, Report
//	3     Admin   one change of configuration, shares or sums at a time
//	4     Claiming  one Claims of keys at a time
//	5     Wait    one request that waits for the owner of an EXACT limit's key
//	6     Flow    one flow, its queue and its controllers
//	7     State   one contended key
//	8     States  the pool of states
//	9     Leaf    flows by name, the ticker's new flows, the others' claims of flows, slots outside
//	              the table, the tallies of limits, a bucket's new keys, when states are visited, a
//	              part of the tokens, the places of requests that wait for them
//	10    Budget  what limits have of the keys and questions of a replica
//
// With the build tag lockrank each Lock is checked against this table; without the tag
// a Mutex is a sync.Mutex.
package lock

// Rank is one of the ranks below.
type Rank interface{ rank() int }

// The ranks.
type (
	Naming   struct{}
	Work     struct{}
	Admin    struct{}
	Claiming struct{}
	Wait     struct{}
	Flow     struct{}
	State    struct{}
	States   struct{}
	Leaf     struct{}
	Budget   struct{}
)

func (Naming) rank() int   { return 1 }
func (Work) rank() int     { return 2 }
func (Admin) rank() int    { return 3 }
func (Claiming) rank() int { return 4 }
func (Wait) rank() int     { return 5 }
func (Flow) rank() int     { return 6 }
func (State) rank() int    { return 7 }
func (States) rank() int   { return 8 }
func (Leaf) rank() int     { return 9 }
func (Budget) rank() int   { return 10 }
