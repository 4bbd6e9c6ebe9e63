package check

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/titrate/titrate/lab/judge"
)

// Bound is the bound on admitted cost in a window of length t. It is Rate·t + Burst + Slack, with Cold in
// windows that reach back to the load's start, and Frozen per second while shares may be frozen.
type Bound struct {
	Rate, Burst, Slack, Cold, Frozen float64
	// Ledgers is the cost that ledgers may admit in addition, once for each fault in which they may decide for
	// an EXACT limit, and for each stall of the machine. It is 0 if the limit is not EXACT.
	Ledgers float64
	// Sides says that owners grant the limit: two sides of a cut have an owner, or a ledger, each.
	Sides bool
}

// coldUntil is the time after which a cold start has settled.
const coldUntil = 5 * time.Second

// Excess is the highest level of the bucket, relative to what is allowed at that
// time: what was admitted beyond the bound, negative if there was room.
type Excess struct {
	Beyond float64       `json:"beyond"` // requests
	Level  float64       `json:"level"`
	Most   float64       `json:"most"`
	At     time.Duration `json:"at"`
}

// late is the time after a stall in which requests still arrive that were admitted before its end.
const late = 500 * time.Millisecond

// Admitted checks arrivals, in order of time, against a bound. Requests that were admitted before or during a
// stall of the machine arrive after the stall: they may add the stall's length times the rate, once. Also, an
// EXACT limit's owner may not have answered in time.
func Admitted(arrivals []time.Duration, b Bound, faults []Fault, stalls []Span) Excess {
	m := meter{level: judge.Level{Rate: b.Rate}, worst: Excess{Beyond: math.Inf(-1)}}
	m.amounts = append(m.amounts, amount{0, coldUntil, b.Cold})
	for i := range faults {
		f := &faults[i]
		if f.Grace.Bursts > 0 {
			m.amounts = append(m.amounts, amount{f.From, f.over(), f.Grace.Bursts * b.Burst})
		}
		if b.Ledgers > 0 && f.Grace.Ledgers {
			m.amounts = append(m.amounts, amount{f.From, f.over(), b.Ledgers})
		}
		more := f.Grace.More
		if b.Sides && f.Grace.Sides {
			more = 1
		}
		if more > 0 {
			m.rates = append(m.rates, amount{f.From, f.over(), more * b.Rate})
		}
		if f.Grace.Freezes && b.Frozen > 0 {
			m.rates = append(m.rates, amount{f.From, f.over(), b.Frozen})
		}
	}
	for _, x := range stalls {
		m.amounts = append(m.amounts, amount{x.From, x.To + late, b.Rate*x.Length().Seconds() + b.Ledgers})
	}
	slices.SortFunc(m.amounts, func(a, b amount) int { return cmp.Compare(a.to, b.to) })
	for _, at := range arrivals {
		m.arrive(at, b.Burst+b.Slack)
	}
	return m.worst
}

// amount is the cost that may be admitted in addition in a span: once, or per second.
type amount struct {
	from, to time.Duration
	value    float64
}

type meter struct {
	amounts, rates []amount
	level          judge.Level
	last           time.Duration
	worst          Excess
}

func (m *meter) arrive(at time.Duration, bound float64) {
	for len(m.amounts) > 0 && m.amounts[0].to <= at { // over: drained
		m.advance(m.amounts[0].to)
		m.level.Repay(m.amounts[0].value)
		m.amounts = m.amounts[1:]
	}
	m.advance(at)
	level, most := m.level.Admit(at, 1), bound
	for _, a := range m.amounts {
		if a.from <= at {
			most += a.value
		}
	}
	if beyond := level - most; beyond > m.worst.Beyond {
		m.worst = Excess{Beyond: beyond, Level: level, Most: most, At: at}
	}
}

// advance lets time pass, with the rates that faults excuse in addition.
func (m *meter) advance(to time.Duration) {
	if to <= m.last {
		return
	}
	m.level.Advance(to)
	for _, r := range m.rates {
		if lasted := min(to, r.to) - max(m.last, r.from); lasted > 0 {
			m.level.Repay(r.value * lasted.Seconds())
		}
	}
	m.last = to
}
