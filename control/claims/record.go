package claims

import (
	"cmp"
	"fmt"
	"math"

	"github.com/titrate/titrate/control/exchange"
)

// Record is the announcement of one peer about one key.
type Record struct {
	exchange.KeyClaim         // Admitted counts within the generation
	Generation        uint64  // of the peer's process; higher is newer
	Seq               uint64  // within the generation; higher is newer
	Gap               float64 // of an owner's sum, see exchange.KeySum; else 0
	Assumed           float64 // likewise, cost units
}

// Bounds of what a peer may send: no limit is above MaxRate, and counts beyond MaxAdmitted
// would lose what is added to them.
const (
	MaxRate     = 1e12 // of claims in cost units/s, of weights, and of what is spent in cost units
	MaxAdmitted = 1e15 // cost units
	MaxGap      = 1e9  // seconds

	// MaxCount bounds the part of a sum that is one peer's count, cost units. Beyond, the count begins anew with
	// another Epoch. So sums stay exact, whatever one of them says: a number above 1e15 has no room for what is
	// added to it.
	MaxCount = 1e11

	// maxBase bounds the counts of removed peers, cost units: the doubles there lie .002 apart. One peer more must not
	// begin a new Epoch, in which each ledger takes the largest debt of any: liars leave different debts behind.
	maxBase = 100 * MaxCount
)

// maxPeers is over how many peers a sum may go: the bounds of an owner's sum are so many times those of one record.
const maxPeers = 1e4

// Validate reports the first number that no peer may send of itself.
func (r Record) Validate() error { return r.validate(1) }

// ValidateSum reports the first number that is too large for the sum over all peers. A peer at its own bound must not
// make a sum that is refused.
func (r Record) ValidateSum() error { return r.validate(maxPeers) }

// upTo reports whether both numbers are from 0 to most.
func upTo(most, a, b float64) bool { return a >= 0 && a <= most && b >= 0 && b <= most }

func (r Record) validate(peers float64) error {
	most, rate := peers*MaxAdmitted, peers*MaxRate
	if upTo(most, r.Admitted, r.Assumed) && upTo(rate, r.Claim, r.Active) && upTo(rate, r.Unsaturated, r.Spent) &&
		upTo(rate, r.Own, 0) && math.Abs(r.Gap) <= MaxGap {
		return nil
	}
	for _, f := range [...]struct {
		name    string
		v, most float64
	}{
		{"admitted", r.Admitted, most}, {"claim", r.Claim, rate}, {"active", r.Active, rate},
		{"unsaturated", r.Unsaturated, rate}, {"spent", r.Spent, rate},
		{"own", r.Own, rate}, {"gap", math.Abs(r.Gap), MaxGap},
		{"assumed", r.Assumed, most},
	} {
		if !(f.v >= 0 && f.v <= f.most) {
			return fmt.Errorf("claims: record of key %#x: %s is %v, want a number from 0 to %g", r.Key, f.name, f.v,
				f.most)
		}
	}
	return nil
}

// compare orders records of one peer and key by age. Records with the same generation and
// sequence that differ, which only a faulty peer sends, are ordered by their numbers, so
// that all peers that receive both agree.
func compare(a, b *Record) int {
	return cmp.Or(
		cmp.Compare(a.Generation, b.Generation),
		cmp.Compare(a.Seq, b.Seq),
		cmp.Compare(a.Admitted, b.Admitted),
		cmp.Compare(a.Claim, b.Claim),
		cmp.Compare(a.Active, b.Active),
		cmp.Compare(a.Unsaturated, b.Unsaturated),
		cmp.Compare(a.Spent, b.Spent),
		cmp.Compare(a.Own, b.Own),
	)
}

// Lineage is the history of one key at one peer: the latest record, the last
// one received of the generation before, and the total of all earlier ones. The
// zero value has received nothing.
type Lineage struct {
	Latest  Record
	older   float64
	present uint8 // 0: nothing received; 1: Latest; 2: and before
	before  Record
}

// Merge takes in a record and reports whether it changed anything.
func (l *Lineage) Merge(r *Record) bool {
	switch {
	case l.present == 0:
		l.Latest, l.present = *r, 1
	case r.Generation > l.Latest.Generation:
		if l.present == 2 {
			l.older += l.before.Admitted
		}
		l.before, l.Latest, l.present = l.Latest, *r, 2
	case r.Generation == l.Latest.Generation:
		return replace(&l.Latest, r)
	case l.present == 1:
		l.before, l.present = *r, 2
	case r.Generation == l.before.Generation:
		return replace(&l.before, r)
	default:
		return false
	}
	return true
}

// replace puts a newer record of the same generation in place.
func replace(into, r *Record) bool {
	if r.Seq <= into.Seq && compare(r, into) <= 0 {
		return false
	}
	*into = *r
	return true
}

// Admitted returns the cost admitted over all generations received.
func (l *Lineage) Admitted() float64 {
	total := l.older + l.Latest.Admitted
	if l.present == 2 {
		total += l.before.Admitted
	}
	return total
}
