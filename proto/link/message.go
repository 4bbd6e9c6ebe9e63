package link

import (
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

const (
	// HelloTimeout bounds the time from accepting a connection to its Hello.
	HelloTimeout = 2 * time.Second
	// HeartbeatEvery is the longest time between two messages of one side.
	HeartbeatEvery = time.Second
	// DeadAfter is the silence after which the other side counts as dead.
	DeadAfter = 3 * time.Second
)

// Message is one of *Hello, *Heartbeat, *Refused, *config.Config and *config.Delta, or of these types of package
// exchange. These are *Shares, *Sums, *Claims, *Report, *Decisions, *Names, *Spent, *TokenRequests, *TokenAnswers,
// *SlotAsks, *SlotReplies, *QuotaAsks and *QuotaReplies. A [Writer] refuses anything else.
type Message any

// blanks make an empty message of each kind.
var blanks = [...]func() Message{
	kindHello:         func() Message { return &Hello{} },
	kindConfig:        func() Message { return &config.Config{} },
	kindDelta:         func() Message { return &config.Delta{} },
	kindShares:        func() Message { return &exchange.Shares{} },
	kindSums:          func() Message { return &exchange.Sums{} },
	kindClaims:        func() Message { return &exchange.Claims{} },
	kindReport:        func() Message { return &exchange.Report{} },
	kindRefused:       func() Message { return &Refused{} },
	kindNames:         func() Message { return &exchange.Names{} },
	kindSpent:         func() Message { return &exchange.Spent{} },
	kindDecisions:     func() Message { return &exchange.Decisions{} },
	kindTokenRequests: func() Message { return &exchange.TokenRequests{} },
	kindTokenAnswers:  func() Message { return &exchange.TokenAnswers{} },
	kindSlotAsks:      func() Message { return &exchange.SlotAsks{} },
	kindSlotReplies:   func() Message { return &exchange.SlotReplies{} },
	kindQuotaAsks:     func() Message { return &exchange.QuotaAsks{} },
	kindQuotaReplies:  func() Message { return &exchange.QuotaReplies{} },
	kindHeartbeat:     func() Message { return &Heartbeat{} },
}

var kinds = func() map[reflect.Type]kind {
	all := map[reflect.Type]kind{}
	for k, blank := range blanks {
		if blank != nil {
			all[reflect.TypeOf(blank())] = kind(k)
		}
	}
	return all
}()

// kindOf returns the kind of a message, 0 if it is none.
func kindOf(m Message) kind { return kinds[reflect.TypeOf(m)] }

// Hello opens the link in both directions.
type Hello struct {
	// Version is the newest version that the sender speaks.
	Version uint8 `json:"version"`
	// Replica names the filter process, or the agent in the agent's Hello.
	// A parent and a child of a hot restart share one name.
	Replica string `json:"replica"`
	// Generation distinguishes the processes that a replica has been: cumulative
	// counts start over with a new one. It is the time of the process's start in
	// nanoseconds since 1970.
	Generation uint64 `json:"generation"`
	// PID is the sender's process ID. A receiver may compare it with the socket's peer
	// credentials.
	PID int `json:"pid"`
	// Envoy is Envoy's version, to be shown to people; "" where it is not known.
	Envoy string `json:"envoy,omitempty"`
	// Restart is 1 + the number of hot restarts before this process (Envoy's
	// --restart-epoch); 0: not known. By it the agent sees whether a second process of
	// one name is the child of a hot restart, or an Envoy with the wrong name.
	Restart int `json:"restart,omitempty"`
	// Again is set by a filter process that has had an agent before: that agent knew the filter's
	// claims, and sent it what the others have spent.
	Again bool `json:"again,omitempty"`
	// Decisions is set by an agent that takes [exchange.Decisions]: others know no such message.
	Decisions bool `json:"decisions,omitempty"`
	// Tokens is set by an agent that takes [exchange.TokenRequests]: others know no such message.
	Tokens bool `json:"tokens,omitempty"`
	// Slots is set by an agent that takes [exchange.SlotAsks]: others know no such message.
	Slots bool `json:"slots,omitempty"`
	// Quotas is set by an agent that takes [exchange.QuotaAsks]: others know no such message.
	Quotas bool `json:"quotas,omitempty"`
	// Clock is the coordinators' time of day at an agent that sends this; 0: not said. The filter counts on from it.
	Clock config.Instant `json:"clock_ms,omitempty"`
	// Weight of this replica in the split of a share, > 0; 1 if absent.
	Weight float64 `json:"weight,omitempty"`
}

// Heartbeat shows that its sender lives, and which configuration it has in force.
type Heartbeat struct {
	// Sequence counts the sender's heartbeats on this connection.
	Sequence uint64
	// Revision is the configuration in force at the sender; 0 = none yet.
	Revision int64
	// Refused is the revision that the sender refused last, 0 = none; the older
	// configuration stays in force.
	Refused int64
	// Reason says why Refused was refused, at most 1 KiB.
	Reason string
	// Parted counts the requests, since the filter's start, for contended keys beyond its
	// budget: each replica limits such a key to its own part. 0 from an agent and from a
	// filter that does not count them.
	Parted uint64
	// Features names what the filter can do that an earlier one cannot, with commas between the names:
	// [exchange.FeatureConcurrency], [exchange.FeatureQuota], [exchange.FeatureOverrides]. "" from an agent.
	Features string
	// Clock is as in [Hello]. 0 from a filter.
	Clock config.Instant
}

// MaxRefused bounds the limits that one [Refused] names.
const MaxRefused = 256

// Refused lists the limits of the configuration in force that a filter does not enforce,
// because it cannot read them or they are not valid. It enforces the rest. A filter sends
// Refused after each configuration that it has put in force, also when the list is empty.
type Refused struct {
	// Revision of the configuration.
	Revision int64
	// Total number of limits that are left out, ≥ len(Limits).
	Total int
	// Limits are the first MaxRefused of them; each text has at most 256 bytes.
	Limits []config.LeftOut
}

// check sets the default weight and refuses what no peer can mean.
func (h *Hello) check() error {
	bad := func(field, format string, args ...any) error {
		return &FormatError{Message: "Hello", Field: field, Reason: fmt.Sprintf(format, args...)}
	}
	if h.Weight == 0 {
		h.Weight = 1
	}
	switch {
	case h.Version == 0:
		return bad("version", "is missing")
	case h.Replica == "":
		return bad("replica", "is missing: the process needs a name")
	case h.Weight < 0:
		return bad("weight", "is %v, must be above 0", h.Weight)
	case h.Generation > math.MaxInt64:
		return bad("generation", "is %d, nanoseconds since 1970 are at most %d", h.Generation, math.MaxInt64)
	}
	return nil
}
