package keys

import "github.com/titrate/titrate/control/limiter/internal/fixed"

// A process that cannot ask for each request decides by a rate that it was given: this replica's part of the limit.
// What it has admitted is charged later.

// Demand is the demand that such a process has.
type Demand struct {
	Rate    float64 // cost units/s
	Hold    float64 // for how long that holds from now on, seconds
	Refused bool    // it refuses a part
}

// Account charges a client's key with cost that was admitted elsewhere, up to the bound of its debt, and has this
// replica claim the demand.
func (s *Store) Account(g *Group, client string, now, cost int64, d Demand) {
	s.Owe(g, client, now, cost)
	key, at := s.findSlot(g, client, false)
	if at.b == nil {
		return
	}
	if st := s.lockState(at, key); st != nil {
		defer st.mu.Unlock()
		seconds := s.seconds(now)
		s.count(st, at, g.Numbers(client), s.view.Load(), now, seconds)
		st.ledger.Expect(seconds, d.Rate, d.Hold, d.Refused)
	}
}

// Part says how much of a client's key a replica may use now.
type Part struct {
	Rate  float64 // cost units/s
	Burst float64 // of all replicas together, cost units
	Free  float64 // of that, for this replica, cost units
	Debt  float64 // that it has to repay of what was admitted beyond the bucket, cost units
}

// Part returns this replica's part of a client's key: the rate that its announced claims give it. A key that it has
// not used enough to be worth announcing is divided by the number of replicas. It charges nothing.
func (s *Store) Part(g *Group, client string, now int64) Part {
	n := g.Numbers(client)
	if !(n.Rate > 0) {
		return Part{}
	}
	u := s.Usage(g, client, now, fixed.Unit)
	rate := s.partRate(g, client, n)
	of := min(1, rate/u.Local.Rate)
	return Part{Rate: rate, Burst: n.Burst, Free: max(0, u.Local.Burst-u.Spent) * of,
		Debt: max(0, u.Spent-u.Local.Burst) * of}
}

// partRate is the rate of a Part.
func (s *Store) partRate(g *Group, client string, n Numbers) float64 {
	m := s.view.Load()
	key, at := s.findSlot(g, client, false)
	if at.b == nil {
		return n.fraction(m).Rate
	}
	st := s.lockState(at, key)
	if st == nil {
		return n.fraction(m).Rate
	}
	defer st.mu.Unlock()
	if !st.counting || st.isCutOff(m) {
		return n.fraction(m).Rate
	}
	_, escrow := st.ledger.Shares()
	return escrow * n.Rate
}
