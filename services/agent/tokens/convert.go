package tokens

import (
	"slices"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
)

// The same messages in packets and on the link.

func toRequest(process uint64, q *exchange.TokenRequest) *gossipv1.TokenRequest {
	return &gossipv1.TokenRequest{
		Key: q.Key, Process: process, Tenant: q.Tenant, Limit: q.Limit, Client: []byte(q.Client),
		Plan: []byte(q.Plan), Session: q.Session,
		Owner: q.Owner, Number: q.Number, Seq: q.Seq, Recalled: q.Recalled, Granted: q.Granted, Spent: q.Spent,
		Returned: q.Returned, Extra: q.Extra, Need: q.Need, Least: q.Least,
		Ahead: q.Ahead, Use: q.Use,
		Refilled: q.Refills[0].Amount, Age: q.Refills[0].Age, Refills: toRefills(q.Refills[1:]),
		Exclusive: q.Exclusive, Register: q.Register, Held: q.Held, Level: q.Level, Released: q.Released,
		Forgotten: q.Forgotten, Waited: q.Waited, Full: q.Full,
	}
}

func fromRequest(m *gossipv1.TokenRequest) exchange.TokenRequest {
	name := exchange.KeyName{Tenant: m.Tenant, Limit: m.Limit, Client: string(m.Client), Plan: string(m.Plan)}
	return exchange.TokenRequest{Key: m.Key, KeyName: name, Request: grant.Request{
		Session: m.Session, Owner: m.Owner, Number: m.Number, Seq: m.Seq, Recalled: m.Recalled, Granted: m.Granted,
		Spent: m.Spent, Returned: m.Returned, Extra: m.Extra, Need: m.Need, Least: m.Least, Ahead: m.Ahead, Use: m.Use,
		Refills: fromRefills(m), Exclusive: m.Exclusive, Register: m.Register, Held: m.Held, Level: m.Level,
		Released: m.Released, Forgotten: m.Forgotten, Waited: m.Waited, Full: m.Full,
	}}
}

// toRefills leaves out empty refills: most requests have one time.
func toRefills(later []grant.Refill) (out []*gossipv1.Refill) {
	for _, r := range later {
		if r.Amount != 0 {
			out = append(out, &gossipv1.Refill{Refilled: r.Amount, Age: r.Age})
		}
	}
	return out
}

func fromRefills(m *gossipv1.TokenRequest) (out [grant.Refills]grant.Refill) {
	out[0] = grant.Refill{Amount: m.Refilled, Age: m.Age}
	for i, r := range m.Refills[:min(len(m.Refills), grant.Refills-1)] {
		out[i+1] = grant.Refill{Amount: r.GetRefilled(), Age: r.GetAge()}
	}
	return out
}

func toGrant(process uint64, g *exchange.TokenGrant) *gossipv1.TokenGrant {
	return &gossipv1.TokenGrant{
		Key: g.Key, Process: process, Owner: g.Owner, Session: g.Session, Seq: g.Seq, Granted: g.Granted,
		Admit: g.Admit, Seen: g.Seen, Wait: g.Wait, Others: g.Others, Level: g.Level, Exclusive: g.Exclusive,
		Begin: g.Begin, Full: g.Full, NoRoom: g.NoRoom, Pending: g.Pending, Valid: g.Valid,
	}
}

func fromGrant(m *gossipv1.TokenGrant) exchange.TokenGrant {
	return exchange.TokenGrant{Key: m.Key, Grant: grant.Grant{
		Owner: m.Owner, Session: m.Session, Seq: m.Seq, Granted: m.Granted, Admit: m.Admit, Seen: m.Seen, Wait: m.Wait,
		Others: m.Others, Level: m.Level, Exclusive: m.Exclusive, Begin: m.Begin, Full: m.Full,
		NoRoom: m.NoRoom, Pending: m.Pending, Valid: m.Valid,
	}}
}

func toRecall(process uint64, r *exchange.TokenRecall) *gossipv1.TokenRecall {
	return &gossipv1.TokenRecall{
		Key: r.Key, Process: process, Owner: r.Owner, Session: r.Session, Number: r.Number, Seq: r.Seq, Seen: r.Seen,
		Granted: r.Granted,
	}
}

func fromRecall(m *gossipv1.TokenRecall) exchange.TokenRecall {
	return exchange.TokenRecall{Key: m.Key, Recall: grant.Recall{
		Owner: m.Owner, Session: m.Session, Number: m.Number, Seq: m.Seq, Seen: m.Seen, Granted: m.Granted,
	}}
}

func toPartCall(process uint64, c *exchange.PartCall) *gossipv1.PartCall {
	return &gossipv1.PartCall{Key: c.Key, Process: process, Owner: c.Owner, At: c.At, Lease: c.Lease, Rate: c.Rate,
		Burst: c.Burst}
}

func fromPartCall(m *gossipv1.PartCall) exchange.PartCall {
	return exchange.PartCall{Key: m.GetKey(), PartCall: grant.PartCall{Owner: m.GetOwner(), At: m.GetAt(),
		Lease: m.GetLease(), Rate: m.GetRate(), Burst: m.GetBurst()}}
}

func toPartAnswer(process uint64, a *exchange.PartAnswer) *gossipv1.PartAnswer {
	m := &gossipv1.PartAnswer{Key: a.Key, Process: process, Owner: a.Owner, At: a.At, Given: a.Given, Size: a.Size,
		Spent: a.Spent, Full: a.Full, Since: a.Since, Base: a.Base}
	for _, e := range a.Spends {
		m.SpendAges, m.SpendCosts = append(m.SpendAges, e.Age), append(m.SpendCosts, e.Cost)
	}
	return m
}

func fromPartAnswer(m *gossipv1.PartAnswer) exchange.PartAnswer {
	a := exchange.PartAnswer{Key: m.GetKey(), PartAnswer: grant.PartAnswer{Owner: m.GetOwner(), At: m.GetAt(),
		Given: m.GetGiven(), Size: m.GetSize(), Spent: m.GetSpent(), Full: m.GetFull(), Since: m.GetSince(),
		Base: m.GetBase()}}
	ages, costs := m.GetSpendAges(), m.GetSpendCosts()
	for i := range min(len(ages), len(costs)) { // Usable bounds them
		a.Spends = append(a.Spends, grant.Spend{Age: ages[i], Cost: costs[i]})
	}
	return a
}

func toStatement(s *grant.Statement) *gossipv1.DivisionStatement {
	return &gossipv1.DivisionStatement{Life: s.Life, Number: s.Number, Least: uint32(s.Least), Processes: s.Processes,
		SeenLife: s.Seen.Life, SeenNumber: s.Seen.Number, Fresh: s.Fresh, Begun: s.Begun}
}

// fromStatement is not ok for a statement that no agent makes.
func fromStatement(m *gossipv1.DivisionStatement) (s grant.Statement, ok bool) {
	p := m.GetProcesses()
	if m.GetLife() == 0 || m.GetNumber() == 0 || m.GetLeast() > exchange.MaxGateways || len(p) > grant.MostDivided ||
		len(p) == 0 && m.GetLeast() > 0 || !slices.IsSorted(p) || len(slices.Compact(slices.Clone(p))) != len(p) {
		return s, false
	}
	return grant.Statement{Life: m.GetLife(), Number: m.GetNumber(), Least: int(m.GetLeast()), Processes: p,
		Seen: grant.Seen{Life: m.GetSeenLife(), Number: m.GetSeenNumber()}, Fresh: m.GetFresh(),
		Begun: m.GetBegun()}, true
}
