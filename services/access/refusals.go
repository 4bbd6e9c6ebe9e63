package access

import (
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Why calls are refused, as indexes of Reasons.
const (
	byNothing     = iota // no credentials
	byCertificate        // one that is no longer good
	byToken              // a token that is not good
	byRole               // a known caller, whose roles do not allow the call
)

// Reasons name why calls are refused, for metrics.
var Reasons = [...]string{byNothing: "no_credentials", byCertificate: "certificate", byToken: "token", byRole: "role"}

// refusals counts calls that were refused, by reason.
type refusals struct {
	counts [len(Reasons)]atomic.Uint64
	// sometimes bounds how often the log names a caller that is not known: whoever can reach
	// the port could fill the disk.
	sometimes rate.Sometimes
}

func (r *refusals) count(reason int) { r.counts[reason].Add(1) }

// Refused is how many calls were refused, for each of Reasons.
func (g *Guard) Refused() (out [len(Reasons)]uint64) {
	for i := range out {
		out[i] = g.refusals.counts[i].Load()
	}
	return out
}

// logEvery is the least time between two log lines about callers that are not known.
const logEvery = time.Second
