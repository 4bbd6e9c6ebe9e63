package sites

import (
	"math"

	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
)

// Params of a limit over several sites.
type Params struct {
	Rate  float64 // r, cost units/s
	Burst int64   // b, millionths
	Sites int     // S, with this one
	Lag   float64 // δ, seconds: an admission at another site is known here
}

// Book has what one owner knows of the use of its key at other sites.
type Book struct {
	p       Params
	l       drc.Ledger
	own     int64   // Owner.Admitted as counted in l
	at      float64 // when
	spent   float64 // KeySum.Spent as received last
	spentAt float64
	carry   float64 // of a charge, below a millionth
}

// healing is the time, in seconds, whose refill may be owed beyond the bursts of all sites.
const healing = 15

// NewBook returns the book of an owner that other sites' use is received for first. spent is D of its bucket without
// what is granted and not spent, admitted is Owner.Admitted; both are millionths.
func NewBook(p Params, now int64, spent, admitted int64) *Book {
	b := &Book{p: p, own: admitted, at: seconds(now)}
	b.l = drc.FromSpent(p.ledger(), seconds(now), units(spent))
	return b
}

// ledger has no W: the bucket remembers exactly when refill was turned away (grant.Owner.Charge).
func (p Params) ledger() drc.LedgerParams {
	return drc.LedgerParams{Rate: p.Rate, Burst: units(p.Burst), Replicas: float64(p.Sites), Lag: p.Lag, Strict: true}
}

// Deepest returns the largest D, in millionths, that a charge leaves.
func (p Params) Deepest() int64 {
	return int64(min(float64(p.Sites)*float64(p.Burst)+p.Rate*healing*grant.Token, math.MaxInt64/4))
}

// Receive takes the sums over the other sites, and returns what the bucket is to be charged, in millionths. It is
// negative where an estimate was too high. spent and admitted are as for NewBook, as of now.
func (b *Book) Receive(p Params, now int64, spent, admitted int64, s *exchange.KeySum) (charge int64) {
	t := seconds(now)
	if p != b.p {
		b.p = p
		b.l.Configure(p.ledger(), t)
	}
	more := admitted - b.own
	b.own = admitted
	b.l.Owe(b.at, units(max(0, more)), math.MaxFloat64) // no later: it would find the pool full meanwhile
	b.l.Forgive(t, units(max(0, spent)))                // the bucket knows when it was
	b.at = t
	if s.Spent != b.spent {
		b.spent, b.spentAt = s.Spent, t
	}
	before := b.l.Spent()
	b.l.Hear(t, drc.LedgerSums{Admitted: s.Admitted, Claims: s.Claims, Active: s.Active, Unsaturated: s.Unsaturated,
		Spent: s.Spent, Own: s.Own, Gap: s.Gap, Assumed: s.Assumed, Epoch: s.Epoch, Age: t - b.spentAt})
	exact := (b.l.Spent()-before)*grant.Token + b.carry
	whole := math.Floor(exact)
	b.carry = exact - whole
	return int64(whole)
}

func seconds(ns int64) float64 { return float64(ns) * 1e-9 }

func units(millionths int64) float64 { return float64(millionths) / grant.Token }
