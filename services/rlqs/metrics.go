package rlqs

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/services/intake"
	"github.com/titrate/titrate/services/rlqs/assign"
)

// Reasons for which a stream, or a bucket of a report, is refused, in the order of Stats.Refused.
const (
	refusedStream   = iota // there are maxStreams
	refusedDomain          // none, or another one than before in the stream
	refusedID              // a bucket id beyond its bounds, or none
	refusedOfStream        // the stream has maxBucketsOfStream
	refusedBucket          // there are maxBuckets
	reasons
)

// Reasons are the names of the reasons in metrics.
var Reasons = [reasons]string{"streams", "domain", "bucket_id", "buckets_of_stream", "buckets"}

// alarmFor is for how long a refusal is an alarm.
const alarmFor = 2 * time.Minute

// counts has the server's counters since it started.
type counts struct {
	reports     atomic.Uint64
	refused     [reasons]atomic.Uint64
	refusedAt   atomic.Int64 // Unix time, nanoseconds
	refusedWhy  atomic.Int64 // the last reason
	namesUnused atomic.Int64
}

func (c *counts) refuse(why int, now time.Time) {
	c.refused[why].Add(1)
	c.refusedWhy.Store(int64(why))
	c.refusedAt.Store(now.UnixNano())
}

// trouble is an alarm while something was refused recently.
func (c *counts) trouble(now time.Time) error {
	if at := c.refusedAt.Load(); at == 0 || now.Sub(time.Unix(0, at)) > alarmFor {
		return nil
	}
	return fmt.Errorf("--rlqs: reports were refused in the last two minutes, for %s: such requests have no assignment",
		Reasons[c.refusedWhy.Load()])
}

// Stats are cumulative counters except where a field says otherwise.
type Stats struct {
	assign.Counts

	Streams, Buckets, Members int // now: open streams, different buckets, buckets of all streams
	Unknown                   int // now: members whose tenant or domain is not known
	Reports                   uint64
	Refused                   [reasons]uint64
	NamesUnused               int // now: identities and classes beyond the engine's bounds
	Messages                  [len(intake.Reasons)]uint64
	Panics                    uint64
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	c := &s.counts
	out := Stats{Reports: c.reports.Load(), NamesUnused: int(c.namesUnused.Load()),
		Messages: s.intake.Refused(), Panics: s.enforcer.Panics() + s.intake.Panics()}
	for i := range out.Refused {
		out.Refused[i] = c.refused[i].Load()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out.Counts = s.book.Counts
	out.Streams, out.Buckets, out.Members, out.Unknown = s.book.Sizes()
	return out
}
