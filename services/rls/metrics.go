package rls

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/services/intake"
)

const (
	// maxMetrics bounds the names of limits in the metrics; the others are "other".
	maxMetrics = 10_000
	// maxMetric bounds such a name, bytes: with detailed_metric it has values of requests.
	maxMetric = 512
	// nearLimit is the part of a limit beyond which an admitted request counts as near it.
	nearLimit = 0.8
)

// counts has the server's counters since it started.
type counts struct {
	invalid          atomic.Uint64 // requests that were answered with an error
	unknownDomain    atomic.Uint64 // requests to a domain without a file
	overridesRefused atomic.Uint64 // descriptors whose own limit was one too many
	abandoned        atomic.Uint64 // requests whose callers had gone, or whose deadline passed
	undecided        atomic.Uint64 // descriptors that the engine could not decide
	panics           atomic.Uint64 // requests whose handler panicked
	capped           atomic.Uint64 // descriptors with more hits than the engine decides at once
	refunds          atomic.Uint64 // descriptors with is_negative_hits, which charge nothing
	shadowed         atomic.Uint64 // requests over a limit that Options.Shadow let pass
	hits             hits
	latency          latency
}

// Outcomes of hits, in the order of Hits.By.
const (
	Within = iota // admitted
	Near          // admitted, beyond nearLimit of the limit
	Over
	Shadowed // over a limit with shadow_mode
	Quota    // over a limit with quota_mode
	outcomes
)

// OutcomeNames are the outcomes' names in metrics.
var OutcomeNames = [outcomes]string{"within", "near", "over", "shadow", "quota"}

// Hits are the hits on one limit.
type Hits struct {
	Limit string // the descriptor's name in metrics
	By    [outcomes]uint64
}

// hits counts by limit.
type hits struct {
	mu    sync.RWMutex
	all   map[string]*limitHits
	other atomic.Uint64 // names that found no room
}

type limitHits struct {
	by [outcomes]atomic.Uint64
}

func (h *hits) add(d *decision, n uint64) {
	if !d.limited || n == 0 {
		return
	}
	h.of(label(d.metric)).by[d.outcome()].Add(n)
}

// label is a name as metrics can have it: text, and not too long.
func label(name string) string {
	if len(name) > maxMetric {
		name = name[:maxMetric] + "…"
	}
	return strings.ToValidUTF8(name, "\uFFFD")
}

// outcome returns the index under which a decision is counted.
func (d *decision) outcome() int {
	switch {
	case d.over && d.shadow:
		return Shadowed
	case d.over && d.quota:
		return Quota
	case d.over:
		return Over
	case float64(d.remaining) < (1-nearLimit)*float64(d.numbers.requests):
		return Near
	}
	return Within
}

// of returns the counters of a limit.
func (h *hits) of(limit string) *limitHits {
	h.mu.RLock()
	l := h.all[limit]
	h.mu.RUnlock()
	if l != nil {
		return l
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[string]*limitHits{}
	}
	if l = h.all[limit]; l == nil {
		if len(h.all) >= maxMetrics {
			limit = "other"
			h.other.Add(1)
		}
		if l = h.all[limit]; l == nil {
			l = &limitHits{}
			h.all[limit] = l
		}
	}
	return l
}

func (h *hits) snapshot() []Hits {
	h.mu.RLock()
	defer h.mu.RUnlock()
	out := make([]Hits, 0, len(h.all))
	for name, l := range h.all {
		one := Hits{Limit: name}
		for i := range l.by {
			one.By[i] = l.by[i].Load()
		}
		out = append(out, one)
	}
	return out
}

// latency is the sum of the times that requests took.
type latency struct {
	requests    atomic.Uint64
	nanoseconds atomic.Int64
}

func (l *latency) observe(d time.Duration) {
	l.requests.Add(1)
	l.nanoseconds.Add(int64(d))
}

// Stats are cumulative counters except where a field says otherwise.
type Stats struct {
	Requests         uint64  // answered without an error
	Seconds          float64 // that they took together
	Invalid          uint64
	UnknownDomain    uint64
	OverridesRefused uint64
	Abandoned        uint64
	Undecided        uint64
	Capped           uint64
	Shadowed         uint64
	MetricsRefused   uint64 // decisions counted as "other"
	Hits             []Hits
	Limits           int       // of the files or the xDS server in force, now
	FilesRefused     uint64    // changes of the files or of the xDS server that were refused
	FilesTrouble     string    // why what is in the directory, or was sent last, is not in force; "" if it is
	XDS              *XDSStats // nil: there is no xDS server
	// Of fixed windows: counters, now; and descriptors that shared a counter with other clients.
	Counters       int
	CountersShared uint64
	NamesUnused    int // names of identities and classes beyond the engine's bounds, now
	Panics         uint64
	Refused        [len(intake.Reasons)]uint64 // messages, before they were decided, by intake.Reasons
	Refunds        uint64                      // descriptors with is_negative_hits
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	c := &s.counts
	out := Stats{
		Requests: c.latency.requests.Load(), Seconds: time.Duration(c.latency.nanoseconds.Load()).Seconds(),
		Invalid: c.invalid.Load(), UnknownDomain: c.unknownDomain.Load(), OverridesRefused: c.overridesRefused.Load(),
		Abandoned: c.abandoned.Load(), Undecided: c.undecided.Load(), Capped: c.capped.Load(),
		Shadowed: c.shadowed.Load(), MetricsRefused: c.hits.other.Load(), Hits: c.hits.snapshot(),
		Limits: len(s.composer.files.Load().Limits()), NamesUnused: int(s.composer.unused.Load()),
		Panics:  s.enforcer.Panics() + c.panics.Load() + s.intake.Panics(),
		Refused: s.intake.Refused(), Refunds: c.refunds.Load(),
	}
	if s.windows != nil {
		w := s.windows.Stats()
		out.Counters, out.CountersShared = w.Counters, w.Overflow
	}
	out.FilesRefused, out.FilesTrouble = s.watch.trouble()
	if s.xds != nil {
		state := s.xds.stats()
		out.XDS = &state
		out.FilesRefused, out.FilesTrouble = s.xds.trouble()
	}
	return out
}
