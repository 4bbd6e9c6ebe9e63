package tokens

import (
	"time"

	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/services/agent/owners"
)

// line is the way to a process, with the keys whose messages wait for room on it: recalls, or calls of parts.
type line struct {
	owners.Process
	number grant.Peer
	waits  grant.Line[uint64]
	listed bool // in lines
}

// lines are the lines in which something may wait.
type lines []*line

// add has the message of a key wait for its turn.
func (l *lines) add(to *line, key uint64) {
	to.waits.Add(key, false)
	if !to.listed {
		to.listed = true
		*l = append(*l, to)
	}
}

// send calls send for each key for whose message there is room. send reports whether there is still a message to send.
func (l *lines) send(now int64, send func(to *line, key uint64) bool) {
	kept := (*l)[:0]
	for _, to := range *l {
		for key, ok := to.waits.Next(now); ok; key, ok = to.waits.Next(now) {
			if !send(to, key) {
				to.waits.Done(now, key, false)
			}
		}
		if to.listed = !to.waits.Empty(); to.listed {
			kept = append(kept, to)
		}
	}
	clear((*l)[len(kept):])
	*l = kept
}

// due returns the time from which there is room for another message; 0: none waits.
func (l lines) due(now time.Duration) (due time.Duration) {
	for _, to := range l {
		due = sooner(due, time.Duration(to.waits.Due(int64(now))))
	}
	return due
}
