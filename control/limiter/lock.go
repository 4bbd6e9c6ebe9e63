package limiter

// The locks of the engine, in the order in which one thread may take them: each only
// with locks of lower rank held, so never two of the same rank.
//
//	rank  lock     guards
//	1     naming   the names of identities and classes; one Apply or Name at a time
//	2     work     the slow callers: Tick, Drain, Claims, Report
//	3     admin    one change of snapshot, shares or sums at a time
//	4     flow     one flow, its queue and its controllers
//	5     state    one contended key
//	6     states   the pool of states
//	7     leaf     flows by name, the ticker's news, slots outside the table, a bucket's new keys
//
// With the build tag lockrank each Lock is checked against this table
// (lock_checked.go); without it a mutex is a sync.Mutex.
type rank interface{ rank() int }

type (
	namingRank struct{}
	workRank   struct{}
	adminRank  struct{}
	flowRank   struct{}
	stateRank  struct{}
	statesRank struct{}
	leafRank   struct{}
)

func (namingRank) rank() int { return 1 }
func (workRank) rank() int   { return 2 }
func (adminRank) rank() int  { return 3 }
func (flowRank) rank() int   { return 4 }
func (stateRank) rank() int  { return 5 }
func (statesRank) rank() int { return 6 }
func (leafRank) rank() int   { return 7 }
