package link

import (
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

const (
	// HelloTimeout bounds the time from accepting a connection to its Hello.
	HelloTimeout = 2 * time.Second
	// HeartbeatEvery is how often each side says something at least.
	HeartbeatEvery = time.Second
	// DeadAfter is the silence after which the other side counts as dead.
	DeadAfter = 3 * time.Second
)

// Message is one of *Hello, *config.Config, *exchange.Shares, *exchange.Sums,
// *exchange.Claims, *exchange.Report, *Refused, *exchange.Names, *exchange.Spent and
// *Heartbeat. A [Writer] refuses anything else.
type Message any

// kindOf is the message's kind, 0 if it is none.
func kindOf(m Message) kind {
	switch m.(type) {
	case *Hello:
		return kindHello
	case *config.Config:
		return kindConfig
	case *exchange.Shares:
		return kindShares
	case *exchange.Sums:
		return kindSums
	case *exchange.Claims:
		return kindClaims
	case *exchange.Report:
		return kindReport
	case *Refused:
		return kindRefused
	case *exchange.Names:
		return kindNames
	case *exchange.Spent:
		return kindSpent
	case *Heartbeat:
		return kindHeartbeat
	}
	return 0
}

// Hello opens the link in both directions.
type Hello struct {
	// Version is the newest version that the sender speaks.
	Version uint8 `json:"version"`
	// Replica names the filter process, or the agent in the agent's Hello.
	// A parent and a child of a hot restart share one name.
	Replica string `json:"replica"`
	// Generation tells one life of a replica from the next: cumulative counts
	// start over with it. Nanoseconds since 1970 at the process's start do.
	Generation uint64 `json:"generation"`
	// PID is the sender's process, to be compared with the socket's peer
	// credentials by who wants to.
	PID int `json:"pid"`
	// Envoy is Envoy's version where it is known, for people.
	Envoy string `json:"envoy,omitempty"`
	// Restart is 1 + the number of hot restarts before this process (Envoy's
	// --restart-epoch); 0: not known. It tells the child in a hot restart from
	// another Envoy that was given the same name.
	Restart int `json:"restart,omitempty"`
	// Weight of this replica in the split of a share, > 0; 1 if absent.
	Weight float64 `json:"weight,omitempty"`
}

// Heartbeat says that its sender lives, and what it has in force.
type Heartbeat struct {
	// Sequence counts the sender's heartbeats on this connection.
	Sequence uint64
	// Revision is the configuration in force at the sender; 0 = none yet.
	Revision int64
	// Refused is the revision that the sender last refused, with Reason; the
	// older one stays in force. 0 = none.
	Refused int64
	// Reason says why Refused was refused, at most 1 KiB.
	Reason string
	// Parted counts what came for keys beyond the filter's budget of full state, which
	// are held to their part of the limit, since the filter's start. 0 of an agent, and
	// of a filter that does not tell.
	Parted uint64
}

// MaxRefused bounds the limits that one [Refused] names.
const MaxRefused = 256

// Refused lists what a filter leaves out of the configuration that it has in
// force: it cannot read that part, or the part is not valid. The rest of the
// configuration holds. A filter sends Refused after each configuration that it
// takes, with an empty list when it has left out nothing. Since version 2.
type Refused struct {
	// Revision of the configuration.
	Revision int64
	// Total number of limits that are left out, ≥ len(Limits).
	Total int
	// Limits are the first MaxRefused of them; each text has at most 256 bytes.
	Limits []config.LeftOut
}
