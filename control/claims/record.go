package claims

import (
	"cmp"
	"fmt"
	"math"
)

// Record is what one peer announces about one key.
type Record struct {
	Key         uint64  // hash of the key's name
	Generation  uint64  // of the peer's process; higher is newer
	Seq         uint64  // within the generation; higher is newer
	Admitted    float64 // cumulative cost admitted in this generation
	Claim       float64 // R, cost units/s
	Active      float64 // weight when saturated, else 0
	Unsaturated float64 // the claim when unsaturated, else 0
	Spent       float64 // spent part of the peer's shadow pool, cost units
}

// Validate reports the first number that no peer may send.
func (r Record) Validate() error {
	const most = math.MaxFloat64
	if r.Admitted >= 0 && r.Admitted <= most && r.Claim >= 0 && r.Claim <= most && r.Active >= 0 && r.Active <= most &&
		r.Unsaturated >= 0 && r.Unsaturated <= most && r.Spent >= 0 && r.Spent <= most {
		return nil
	}
	for _, f := range [...]struct {
		name string
		v    float64
	}{
		{"admitted", r.Admitted}, {"claim", r.Claim}, {"active", r.Active},
		{"unsaturated", r.Unsaturated}, {"spent", r.Spent},
	} {
		if !(f.v >= 0) || math.IsInf(f.v, 1) {
			return fmt.Errorf("claims: record of key %#x: %s is %v, want a finite number >= 0", r.Key, f.name, f.v)
		}
	}
	return nil
}

// Merge returns the newer of two records of one peer and key. It is
// commutative, associative and idempotent; records that claim the same place
// but differ (a faulty peer) are ordered by their numbers, so that all who hear
// both agree.
func Merge(a, b Record) Record {
	if compare(a, b) >= 0 {
		return a
	}
	return b
}

func compare(a, b Record) int {
	return cmp.Or(
		cmp.Compare(a.Generation, b.Generation),
		cmp.Compare(a.Seq, b.Seq),
		cmp.Compare(a.Admitted, b.Admitted),
		cmp.Compare(a.Claim, b.Claim),
		cmp.Compare(a.Active, b.Active),
		cmp.Compare(a.Unsaturated, b.Unsaturated),
		cmp.Compare(a.Spent, b.Spent),
	)
}

// Lineage is the history of one key at one peer: the latest record, the last
// one heard of the generation before, and the total of all earlier ones. The
// zero value has heard nothing.
type Lineage struct {
	Latest  Record
	before  Record
	older   float64
	present uint8 // 0: nothing heard; 1: Latest; 2: and before
}

// Merge takes in a record and reports whether it changed anything.
func (l *Lineage) Merge(r Record) bool {
	switch {
	case l.present == 0:
		l.Latest, l.present = r, 1
	case r.Generation > l.Latest.Generation:
		if l.present == 2 {
			l.older += l.before.Admitted
		}
		l.before, l.Latest, l.present = l.Latest, r, 2
	case r.Generation == l.Latest.Generation:
		return replace(&l.Latest, r)
	case l.present == 1:
		l.before, l.present = r, 2
	case r.Generation == l.before.Generation:
		return replace(&l.before, r)
	default:
		return false
	}
	return true
}

// replace puts a newer record of the same generation in place.
func replace(into *Record, r Record) bool {
	if r.Seq <= into.Seq && compare(r, *into) <= 0 {
		return false
	}
	*into = r
	return true
}

// Admitted returns the cost admitted over all generations heard of.
func (l *Lineage) Admitted() float64 {
	total := l.older + l.Latest.Admitted
	if l.present == 2 {
		total += l.before.Admitted
	}
	return total
}
