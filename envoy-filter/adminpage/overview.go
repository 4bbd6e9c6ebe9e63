package adminpage

import (
	"strconv"
	"strings"
	"time"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/heavyhitters"
)

// Overview is the page without parameters.
type Overview struct {
	Replica   string    `json:"replica"`
	UpSeconds int64     `json:"upSeconds"`
	Revision  int64     `json:"revision"` // of the configuration in force, 0: none yet
	Panics    uint64    `json:"panics"`   // since the start
	Link      Link      `json:"link"`
	Standing  Standing  `json:"standing"`
	Shares    Shares    `json:"shares"`
	Held      int64     `json:"held"`      // requests waiting now
	Contended int       `json:"contended"` // keys that several gateways share now
	Budget    int       `json:"budget"`    // at most so many of them
	Parted    uint64    `json:"parted"`    // since the start: requests of keys beyond the budget of contended keys
	Overflow  uint64    `json:"overflow"`  // since the start: decisions by a key that new clients share
	Pools     []Pool    `json:"pools"`
	Leases    []Lease   `json:"leases"`
	Limits    []InForce `json:"limits"` // of the leases' tenants
	// TopSeconds is the longest time that topRefused and topHeld can cover; the shortest is half of this time.
	TopSeconds int64     `json:"topSeconds"`
	Refused    []Counted `json:"topRefused"`
	HeldMost   []Counted `json:"topHeld"`
}

// InForce is a limit of a tenant as it is in force in this gateway.
type InForce struct {
	Tenant string   `json:"tenant"`
	Limit  string   `json:"limit"`
	Mode   string   `json:"mode"`            // ENFORCE, SHADOW or OFF
	Pools  []string `json:"pools,omitempty"` // none: all
}

// Standing is this gateway's weight and state among the others.
type Standing struct {
	Replicas    int    `json:"replicas"`
	Weight      number `json:"weight"`
	TotalWeight number `json:"totalWeight"`
	Absent      number `json:"absentWeight"`
	LagMs       int64  `json:"lagMs"`
	Isolation   string `json:"isolation"`
}

// Shares says which leases are in force.
type Shares struct {
	Known bool  `json:"known"`
	Epoch int64 `json:"epoch"`
	Stale bool  `json:"stale"`
}

// Pool counts requests since the start.
type Pool struct {
	Pool      string            `json:"pool"`
	Admitted  uint64            `json:"admitted"`
	Refused   map[string]uint64 `json:"refused"` // by reason
	Waited    uint64            `json:"waited"`
	Marked    uint64            `json:"marked"`
	Shadowed  uint64            `json:"shadowed"`
	Cancelled uint64            `json:"cancelled"`
	Held      int64             `json:"held"`
	InFlight  *number           `json:"inFlight,omitempty"` // cost, of an adaptive pool
}

// Lease is a tenant's share of a pool, as it is in force in this gateway now. Admitted and Refused count requests since
// the gateway has the lease, which ends when the tenant has sent the pool nothing for one to two minutes.
type Lease struct {
	Tenant   string `json:"tenant"`
	Pool     string `json:"pool"`
	Mode     string `json:"mode"`
	Share    number `json:"share"` // of all gateways, cost units/s
	Rate     number `json:"rate"`  // here
	Demand   number `json:"demand"`
	Others   number `json:"others"` // claimed by the other gateways
	Waiting  int    `json:"waiting"`
	Held     int    `json:"held"`
	Admitted uint64 `json:"admitted"`
	Refused  uint64 `json:"refused"`
	Lost     bool   `json:"lost,omitempty"`
}

// Counted is a client among the top ones.
type Counted struct {
	Tenant string `json:"tenant"`
	Client string `json:"client"`
	Pool   string `json:"pool"`
	Limit  string `json:"limit,omitempty"` // that limited it; tenant-share
	Count  number `json:"count"`
	Error  number `json:"error"` // Count is too high by this at most
}

func (s *Source) overview(q *query) *Overview {
	now := s.Now()
	stats := limiter.Stats{Keys: -1} // counting keys walks the whole table
	s.Engine.Stats(now, &stats)
	at := s.Engine.Standing()
	o := &Overview{
		Replica: s.Replica, UpSeconds: int64(time.Since(s.Started).Seconds()), Revision: at.Revision,
		Panics: s.Panics(), Link: s.Link(),
		Standing: Standing{
			Replicas: at.Replicas, Weight: number(at.Weight), TotalWeight: number(at.TotalWeight),
			Absent: number(at.Absent), LagMs: at.Lag.Milliseconds(), Isolation: at.Isolation.String(),
		},
		Shares: Shares{at.Shares.Known, at.Shares.Epoch, at.Shares.Stale},
		Held:   stats.Held, Contended: stats.Contended, Budget: stats.Budget, Parted: stats.Unpromoted,
		Overflow: stats.Overflow, Pools: []Pool{}, Leases: []Lease{}, Limits: []InForce{},
		TopSeconds: int64(heavyhitters.Window.Seconds()),
		Refused:    counted(s.Refused.Top(now, q.rows)), HeldMost: counted(s.Held.Top(now, q.rows)),
	}
	for i := range stats.Pools {
		o.Pools = append(o.Pools, pool(&stats.Pools[i]))
	}
	for _, f := range s.Engine.Flows(q.rows) {
		o.Leases = append(o.Leases, lease(&f))
	}
	o.Limits = s.limits(o.Leases, q.rows)
	return o
}

// limits are at most so many limits of the leases' tenants.
func (s *Source) limits(leases []Lease, most int) []InForce {
	out, seen := []InForce{}, map[string]bool{}
	for _, l := range leases {
		if seen[l.Tenant] {
			continue
		}
		seen[l.Tenant] = true
		for _, m := range s.Engine.Modes(l.Tenant) {
			if len(out) == most {
				return out
			}
			out = append(out, InForce{l.Tenant, m.Name, m.Mode.String(), m.Pools})
		}
	}
	return out
}

func pool(p *limiter.PoolStats) Pool {
	out := Pool{
		Pool: p.Pool, Admitted: p.Admitted, Refused: map[string]uint64{}, Waited: p.Waited, Marked: p.Marked,
		Shadowed: p.Shadowed, Cancelled: p.Cancelled, Held: p.Held,
	}
	for reason, n := range p.Rejected {
		if n > 0 {
			out.Refused[limiter.Reason(reason).String()] = n
		}
	}
	if p.Adaptive {
		n := number(p.InFlight)
		out.InFlight = &n
	}
	return out
}

func lease(f *limiter.FlowState) Lease {
	return Lease{
		Tenant: f.Tenant, Pool: f.Pool, Mode: f.Mode.String(), Share: number(f.Share), Rate: number(f.Rate),
		Demand: number(f.Demand), Others: number(f.Claimed.Others), Waiting: f.Waiting, Held: f.Held,
		Admitted: f.Admitted, Refused: f.Rejected, Lost: f.Lost,
	}
}

func counted(entries []heavyhitters.Entry) []Counted {
	out := make([]Counted, len(entries))
	for i, e := range entries {
		out[i] = Counted{e.Tenant, e.Client, e.Pool, e.Limit, number(e.Count), number(e.Error)}
	}
	return out
}

func (o *Overview) text(w *writer) {
	w.line("gateway %q, up %v", o.Replica, time.Duration(o.UpSeconds)*time.Second)
	w.line("configuration  %s", revision(o.Revision))
	switch {
	case o.Link.Connected:
		w.line("agent          linked")
	default:
		w.line("agent          NOT LINKED: using the last state")
	}
	if o.Link.RefusedRevision != 0 {
		w.line("               REFUSED configuration revision %d: %s", o.Link.RefusedRevision, o.Link.RefusedReason)
	}
	if o.Link.LimitsLeftOut > 0 {
		w.line("               NOT ENFORCED: %d limits that this filter cannot read", o.Link.LimitsLeftOut)
		for _, l := range o.Link.LeftOut {
			w.line("                 %s", l)
		}
	}
	w.line("membership     %d gateways, weight %s of %s, %s, gossip lag %d ms", o.Standing.Replicas,
		show(o.Standing.Weight), show(o.Standing.TotalWeight), o.Standing.Isolation, o.Standing.LagMs)
	switch {
	case !o.Shares.Known:
		w.line("shares         none yet: by weight and configuration")
	case o.Shares.Stale:
		w.line("shares         epoch %d, STALE: frozen as they were", o.Shares.Epoch)
	default:
		w.line("shares         epoch %d", o.Shares.Epoch)
	}
	w.line("now            %d requests held; %d contended keys of %d", o.Held, o.Contended, o.Budget)
	w.line("since start    %d decisions by overflow keys, %d panics", o.Overflow, o.Panics)
	if o.Parted > 0 {
		w.line("ALARM          %d requests, since the start, of keys beyond the budget of contended keys: "+
			"this gateway limits each to its part of the limit", o.Parted)
	}
	o.tables(w)
}

func (o *Overview) tables(w *writer) {
	w.table(poolRows(o.Pools))
	w.line("ADMITTED to CANCELLED: requests since the start, %v ago; HELD, IN FLIGHT: now",
		time.Duration(o.UpSeconds)*time.Second)
	w.table(leaseRows(o.Leases))
	w.line("SHARE/s to HELD: now; ADMITTED, REFUSED: requests since the gateway has the lease, " +
		"which ends after 1 to 2 minutes without requests")
	w.table(limitRows(o.Limits))
	w.line("the limits, as they are in force now, of the tenants that have leases above")
	w.table(countedRows("REFUSED MOST", "REQUESTS", o.Refused))
	w.table(countedRows("HELD MOST", "SECONDS", o.HeldMost))
	longest := time.Duration(o.TopSeconds) * time.Second
	w.line("the two lists above: of the last %v to %v and nothing older; a count may be too high by its error",
		longest/2, longest)
}

func poolRows(pools []Pool) [][]string {
	rows := [][]string{{
		"POOL", "ADMITTED", "REFUSED", "WAITED", "MARKED", "SHADOWED", "CANCELLED", "HELD", "IN FLIGHT",
	}}
	for _, p := range pools {
		refused, inFlight := uint64(0), "-"
		for _, n := range p.Refused {
			refused += n
		}
		if p.InFlight != nil {
			inFlight = show(*p.InFlight)
		}
		row := append([]string{quote(p.Pool)},
			counts(p.Admitted, refused, p.Waited, p.Marked, p.Shadowed, p.Cancelled)...)
		rows = append(rows, append(row, strconv.FormatInt(p.Held, 10), inFlight))
	}
	return rows
}

func leaseRows(leases []Lease) [][]string {
	rows := [][]string{{
		"LEASE", "POOL", "SHARE/s", "HERE/s", "DEMAND/s", "OTHERS/s", "WAITING", "HELD", "ADMITTED", "REFUSED", "MODE",
	}}
	for _, l := range leases {
		mode := l.Mode
		if l.Lost {
			mode += " (lost)"
		}
		rows = append(rows, []string{
			quote(l.Tenant), quote(l.Pool), show(l.Share), show(l.Rate), show(l.Demand), show(l.Others),
			strconv.Itoa(l.Waiting), strconv.Itoa(l.Held), count(l.Admitted), count(l.Refused), mode,
		})
	}
	return rows
}

func limitRows(limits []InForce) [][]string {
	rows := [][]string{{"LIMIT", "TENANT", "MODE", "POOLS"}}
	for _, l := range limits {
		pools := "all"
		if len(l.Pools) > 0 {
			pools = strings.Join(l.Pools, ", ")
		}
		rows = append(rows, []string{quote(l.Limit), quote(l.Tenant), l.Mode, pools})
	}
	return rows
}

func countedRows(title, unit string, list []Counted) [][]string {
	rows := [][]string{{title, "TENANT", "POOL", "LIMIT", unit, "ERROR"}}
	for _, c := range list {
		rows = append(rows, []string{quote(c.Client), quote(c.Tenant), quote(c.Pool), quote(c.Limit), show(c.Count),
			show(c.Error)})
	}
	return rows
}

func revision(n int64) string {
	if n == 0 {
		return "none yet"
	}
	return "revision " + strconv.FormatInt(n, 10)
}
