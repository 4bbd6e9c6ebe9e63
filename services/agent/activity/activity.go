// Package activity keeps what became of requests at an agent's gateways. It has how many were admitted, refused, held,
// marked and shadowed, by tenant and pool and by limit, in about the last minute and since the agent started. It also
// has which clients that happened to. It answers questions about it. Nobody is sent any of it unasked.
//
// # Model
//
// A filter reports counts of what is new since its last report (exchange.Report). A row has
// those of one tenant and pool at one gateway, or of one limit of a tenant at one gateway, in
// buckets of ten seconds. An answer covers the bucket that is being filled and the six before.
//
// Clients come from the filter's sketches, which arrive in parts; a part replaces the one before.
//
// # Bounds
//
// At most MaxRows rows, some 660 bytes each: 43 MB. A new row takes the place of one of the gateway with the most rows.
// Counts without a row go into one nameless row, and into Lost. A row that nothing was counted in for ten minutes is
// forgotten, and so are the clients of a gateway that is gone. Adding a report is O(its size), an answer is O(rows).
package activity

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

const (
	// MaxRows bounds the rows of an agent. More cost memory.
	MaxRows = 1 << 16
	// bucket is the time that one bucket covers, and past the number of buckets before the present one. More cost 52
	// bytes per row each.
	bucket = 10 * time.Second
	past   = 6
	// pause is the time without a limited request after which a new episode begins.
	pause = past * bucket
	// forgetAfter is the time for which a row without new counts is kept.
	forgetAfter = 10 * time.Minute
	// mostUnasked bounds the limits that Unasked returns.
	mostUnasked = 8
	// MaxSeries bounds the rows that have their own series in metrics, of up to eight numbers each. More cost the
	// Prometheus that scrapes them.
	MaxSeries = 100
	// clientsFor is the time for which the clients of an unreachable gateway are listed.
	clientsFor = 10 * time.Second
)

// name says whose requests a row counts. A row of a limit has no pool, a row of a flow no limit.
type name struct{ tenant, pool, limit, gateway string }

// small are exchange.Counts in less memory.
type small [14]uint32

// row counts requests of one name.
type row struct {
	buckets [past + 1]small
	latest  int64           // number of the bucket that is being filled: time / bucket
	total   exchange.Counts // since it has one
	began   time.Duration   // of the row
	since   time.Duration   // of the episode in which requests are limited
	limited time.Duration   // when one was limited last; below 0: never
	own     bool            // it has its own series
	counted time.Duration   // when anything was counted last
}

// Activity has the counts of one agent's gateways. Not safe for concurrent use; now is any time that does not run back.
type Activity struct {
	site    string // of the agent
	rows    map[name]*row
	other   *row // of names that found no row
	clients map[string]*gateway
	lost    uint64

	of     map[string]int     // rows by gateway
	series int                // rows with their own series
	rest   [2]exchange.Counts // what the others count, of flows and of limits
}

// gateway has the clients of one gateway.
type gateway struct {
	parts [][]exchange.ClientCount
	at    time.Duration // of the last report
}

// New returns the activity of nobody, at an agent of a site.
func New(site string) *Activity {
	return &Activity{site: site, rows: map[name]*row{}, clients: map[string]*gateway{}, of: map[string]int{}}
}

// Lost is the number of reports of a name that found no row.
func (a *Activity) Lost() uint64 { return a.lost }

// Rows is the number of rows in use.
func (a *Activity) Rows() int { return len(a.rows) }

// Add adds a gateway's report.
func (a *Activity) Add(now time.Duration, from string, r *exchange.Report) {
	for i := range r.Flows {
		if f := &r.Flows[i]; f.Counts != (exchange.Counts{}) {
			a.count(now, name{tenant: f.Tenant, pool: f.Pool, gateway: from}, &f.Counts)
		}
	}
	for i := range r.Limits {
		l := &r.Limits[i]
		a.count(now, name{tenant: l.Tenant, limit: l.Limit, gateway: from}, &l.Counts)
	}
	if r.Parts > 0 && r.Part < r.Parts {
		a.setClients(now, from, r)
	}
}

func (a *Activity) setClients(now time.Duration, from string, r *exchange.Report) {
	g := a.clients[from]
	if g == nil || len(g.parts) != int(r.Parts) {
		g = &gateway{parts: make([][]exchange.ClientCount, r.Parts)}
		a.clients[from] = g
	}
	g.at, g.parts[r.Part] = now, r.Clients
}

// count counts in a row, and in a series: a row's own from when it is first limited, while
// there are fewer than MaxSeries. So no series ever falls.
func (a *Activity) count(now time.Duration, of name, c *exchange.Counts) {
	r := a.row(now, of)
	r.add(now, c)
	if !r.own && (r.limited >= 0 || c.OwnerUnasked > 0) && r != a.other && a.series < MaxSeries {
		r.own = true
		a.series++
	}
	if r.own {
		r.total.Add(*c)
		return
	}
	kind := 0
	if of.limit != "" {
		kind = 1
	}
	a.rest[kind].Add(*c)
}

// row finds or makes a row.
func (a *Activity) row(now time.Duration, of name) *row {
	if r := a.rows[of]; r != nil {
		return r
	}
	r := &row{latest: int64(now / bucket), began: now, limited: -1}
	if len(a.rows) < MaxRows || a.makeRoom(of.gateway) {
		a.rows[of] = r
		a.of[of.gateway]++
		return r
	}
	a.lost++
	if a.other == nil {
		a.other = r
	}
	return a.other
}

// makeRoom takes a row without a series from the gateway with the most rows, for a gateway with fewer.
func (a *Activity) makeRoom(of string) bool {
	most := of
	for gateway, n := range a.of {
		if n > a.of[most]+1 {
			most = gateway
		}
	}
	if most == of {
		return false
	}
	for at, r := range a.rows {
		if at.gateway == most && !r.own {
			delete(a.rows, at)
			a.of[most]--
			a.lost++
			return true
		}
	}
	return false
}

// Sweep forgets what is old. Call it every few seconds.
func (a *Activity) Sweep(now time.Duration) {
	maps.DeleteFunc(a.rows, func(of name, r *row) bool {
		gone := now-r.counted > forgetAfter
		if gone {
			if a.of[of.gateway]--; a.of[of.gateway] == 0 {
				delete(a.of, of.gateway)
			}
		}
		if gone && r.own {
			a.series--
		}
		return gone
	})
	maps.DeleteFunc(a.clients, func(_ string, g *gateway) bool { return now-g.at > clientsFor })
}

func (r *row) add(now time.Duration, c *exchange.Counts) {
	r.turn(now)
	to := &r.buckets[r.latest%(past+1)]
	for i, n := range c.Fields() {
		to[i] = uint32(min(uint64(to[i])+*n, math.MaxUint32))
	}
	r.counted = now
	if c.Refused()+c.Waited+c.Marked+c.Shadowed == 0 {
		return
	}
	if r.limited < 0 || now-r.limited > pause {
		r.since = now
	}
	r.limited = now
}

// turn empties the buckets that are too old as of now.
func (r *row) turn(now time.Duration) {
	at := int64(now / bucket)
	for n := max(r.latest+1, at-past); n <= at; n++ {
		r.buckets[n%(past+1)] = small{}
	}
	r.latest = max(r.latest, at)
}

// lately returns the sum of the buckets, about the last minute, and the time that they cover.
func (r *row) lately(now time.Duration) (sum exchange.Counts, window time.Duration) {
	r.turn(now)
	var all [len(small{})]uint64
	for i := range r.buckets {
		for j, n := range &r.buckets[i] {
			all[j] += uint64(n)
		}
	}
	for i, n := range sum.Fields() {
		*n = all[i]
	}
	return sum, now - max(r.began, time.Duration(r.latest-past)*bucket)
}

// parts are the buckets since the row began, the newest last.
func (r *row) parts() []exchange.Counts {
	n := min(past, r.latest-int64(r.began/bucket))
	out := make([]exchange.Counts, 0, n+1)
	for at := r.latest - n; at <= r.latest; at++ {
		var c exchange.Counts
		from := &r.buckets[at%(past+1)]
		for i, to := range c.Fields() {
			*to = uint64(from[i])
		}
		out = append(out, c)
	}
	return out
}

// Unasked is a limit that has asked about too many new keys: at one gateway the ledger decided some of them in the last
// minute.
type Unasked struct {
	Tenant, Limit, Gateway string
	Requests               uint64 // in the last minute
}

// Unasked returns those with the most such requests, the most first. O(rows).
func (a *Activity) Unasked(now time.Duration) (out []Unasked) {
	for of, r := range a.rows {
		if of.limit == "" || now-r.counted > pause {
			continue
		}
		if sum, _ := r.lately(now); sum.OwnerUnasked > 0 {
			out = append(out, Unasked{of.tenant, of.limit, of.gateway, sum.OwnerUnasked})
		}
	}
	slices.SortFunc(out, func(a, b Unasked) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Tenant, b.Tenant),
			cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Gateway, b.Gateway))
	})
	return out[:min(len(out), mostUnasked)]
}

// Series has the counts of a row since it has its own series, or of all rows without one: then Tenant is Other.
type Series struct {
	Tenant, Pool, Limit, Gateway string
	Counts                       exchange.Counts
	OfLimit                      bool
}

// Other is the tenant of the series of all rows without their own.
const Other = "_other"

// Series returns all series, in no order.
func (a *Activity) Series() []Series {
	out := []Series{{Tenant: Other, Counts: a.rest[0]}, {Tenant: Other, Counts: a.rest[1], OfLimit: true}}
	for of, r := range a.rows {
		if r.own {
			out = append(out, Series{of.tenant, of.pool, of.limit, of.gateway, r.total, of.limit != ""})
		}
	}
	return out
}
