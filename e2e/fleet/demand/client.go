package demand

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/titrate/titrate/lab/judge"
)

// AllSites is the site of a client that goes to all of them.
const AllSites = -1

// Limit is the limit of a client, with a tenant of its own.
type Limit struct {
	Tenant      string
	Rate, Burst float64 // requests/s, requests
}

// Client is one.
type Client struct {
	Name  string
	Limit Limit
	Load  float64 // part of the limit's rate that it asks for
	Site  int     // the site whose gateways it goes to, or AllSites
	Log   Log
}

// Next returns the time until the next request: requests come at random (Poisson).
func (c *Client) Next(r *rand.Rand) time.Duration {
	return time.Duration(r.ExpFloat64() / (c.Load * c.Limit.Rate) * float64(time.Second))
}

// Record is the outcome of a request. Times are since the start of the fleet.
type Record struct {
	Arrived, Ended time.Duration
	Admitted       bool
}

// Log has the records of a client. It may be used by several goroutines.
type Log struct {
	mu      sync.Mutex
	records []Record
}

// Add adds a record.
func (l *Log) Add(r Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r)
}

// Len returns the number of records.
func (l *Log) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.records)
}

// Figures are the outcomes of a client's requests beside those of one bucket.
type Figures struct {
	Offered  int     `json:"offered"`
	Admitted int     `json:"admitted"`
	Central  int     `json:"central"`  // one token bucket for all sites would have admitted so many
	Wrongful int     `json:"wrongful"` // refused although that bucket admits them, and turns away none around them
	Excess   float64 `json:"excess"`   // the most over rate·t + burst in any window, requests
}

// Ratio returns the admitted requests as a part of what one bucket admits.
func (f Figures) Ratio() float64 { return float64(f.Admitted) / max(1, float64(f.Central)) }

// Refused returns the part of the requests that was refused.
func (f Figures) Refused() float64 { return 1 - float64(f.Admitted)/max(1, float64(f.Offered)) }

// around is the time before and after a refusal in which the bucket turns nothing away, for the refusal to be wrong.
const around = 2 * time.Second

// Figures judges the records of a limit.
func (l *Log) Figures(of Limit) (f Figures) {
	l.mu.Lock()
	records := slices.Clone(l.records)
	l.mu.Unlock()
	slices.SortFunc(records, func(a, b Record) int { return cmp.Compare(a.Arrived, b.Arrived) })
	central := judge.Central{Bucket: judge.Bucket{Rate: of.Rate, Burst: of.Burst}}
	var passed []time.Duration
	for i, r := range records {
		if central.Offer(i, r.Arrived, 1, !r.Admitted) {
			f.Central++
		}
		if r.Admitted {
			passed = append(passed, r.Ended)
		}
	}
	slices.Sort(passed)
	level := judge.Level{Rate: of.Rate, Burst: of.Burst}
	for _, t := range passed {
		f.Excess = max(f.Excess, level.Admit(t, 1))
	}
	f.Offered, f.Admitted, f.Wrongful = len(records), len(passed), len(central.Wrongful(around))
	return f
}
