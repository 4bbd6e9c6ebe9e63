// Package members has what a replica knows of the other replicas.
package members

import "github.com/titrate/titrate/control/exchange"

// View is this replica's view of the others. It is replaced as a whole when it
// changes; by the version ledgers and controllers know when to configure themselves.
type View struct {
	Version   uint32
	Replicas  float64 // N, this one included
	Weight    float64 // w of this one
	Total     float64 // W, this one included
	Lag       float64 // δ, seconds: after it every replica has received a published claim
	Absent    float64 // weights of members cut off for long
	Isolation exchange.Isolation
	Near      bool // the agents are near to each other, see exchange.Sums.Exact
}

// Alone is the view of a replica that knows of no other.
func Alone() *View { return &View{Version: 1, Replicas: 1, Weight: 1, Total: 1} }

// New is the view that sums give.
func New(s *exchange.Sums, version uint32) *View {
	v := &View{
		Version: version, Replicas: float64(max(1, s.Replicas)), Weight: 1,
		Lag: max(0, s.Lag.Seconds()), Absent: s.Absent, Isolation: min(s.Isolation, exchange.Alone),
		Near: s.Exact,
	}
	if s.Weight > 0 {
		v.Weight = s.Weight
	}
	if v.Replicas == 1 {
		v.Lag = 0 // there is no other replica
	}
	v.Total = v.Weight
	if s.TotalWeight > v.Weight {
		v.Total = s.TotalWeight
	}
	return v
}

// Same reports whether nothing but the version differs.
func (v *View) Same(o *View) bool {
	c := *o
	c.Version = v.Version
	return *v == c
}

// Static reports whether this replica has been cut off for so long that it goes by its
// static part w/W.
func (v *View) Static() bool { return v.Isolation >= exchange.Split }
