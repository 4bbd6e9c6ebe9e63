package booking

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/titrate/titrate/control/calendar"
)

// Usage is the use of a key in a period.
type Usage struct {
	Key
	ID     string // the same for this key and period always
	Period string // its name
	Begins time.Time
	Ends   time.Time
	Amount Units
	Booked Units
	calendar.Use
	Final bool
	Lost  int32
	Soft  []float64 // thresholds in force
}

// Selection says which uses are meant: "" is all, but of Period it is the present one.
type Selection struct {
	Tenant, Limit, Client string
	Period                string // present, ended, all, or a name
}

// List returns up to most uses, in order of key and period, after a place in that order, and the place of the last
// one, "" if no more follow.
func (b *Book) List(now time.Time, s Selection, most int, after string) (out []Usage, next string) {
	type placed struct {
		place string
		one   *record
	}
	var all []placed
	for _, one := range b.records {
		if b.selects(now, s, one) {
			if place := one.place(); place > after {
				all = append(all, placed{place, one})
			}
		}
	}
	slices.SortFunc(all, func(x, y placed) int { return cmp.Compare(x.place, y.place) })
	for i, p := range all {
		if i == most {
			return out, all[i-1].place
		}
		out = append(out, b.usage(p.one))
	}
	return out, ""
}

// place returns the place of a record in the order of List.
func (one *record) place() string {
	return strings.Join([]string{one.Tenant, one.Limit, one.Client, strconv.FormatInt(one.Period, 36)}, "\x00")
}

func (b *Book) selects(now time.Time, s Selection, one *record) bool {
	if s.Tenant != "" && s.Tenant != one.Tenant || s.Limit != "" && s.Limit != one.Limit ||
		s.Client != "" && s.Client != one.Client {
		return false
	}
	p := b.calendars.get(one.Calendar)
	if p == nil {
		return false
	}
	present, _, _ := p.at(now)
	switch s.Period {
	case "all":
		return true
	case "", "present":
		return one.Period >= present
	case "ended":
		return one.Period < present
	}
	return p.Name(one.Period) == s.Period
}

func (b *Book) usage(one *record) Usage {
	p := b.calendars.get(one.Calendar)
	c := one.Calendar
	id := sha256.Sum256([]byte(strings.Join([]string{one.Tenant, one.Limit, one.Client, strconv.Itoa(int(c.Per)),
		c.Zone, strconv.Itoa(int(c.StartsOn)), strconv.FormatInt(one.Period, 10)}, "\x00")))
	u := Usage{Key: one.Key, ID: hex.EncodeToString(id[:16]), Amount: one.amount, Booked: one.given(), Use: one.use(),
		Final: one.final, Lost: one.lost, Soft: one.soft}
	if p != nil {
		u.Period, u.Begins, u.Ends = p.Name(one.Period), p.Start(one.Period), p.Start(one.Period+1)
	}
	return u
}

// Reached is a threshold of a quota that its use has reached.
type Reached struct {
	Usage
	Part   float64
	number int
	of     account
}

// Reached returns up to most thresholds that were reached and not delivered: the highest of each record.
func (b *Book) Reached(now time.Time, most int) (out []Reached) {
	for one := range b.hot {
		n, p := one.reached(), b.calendars.get(one.Calendar)
		if n <= one.notified || one.gone || p == nil {
			delete(b.hot, one)
			continue
		}
		if present, _, _ := p.at(now); one.Period < present {
			delete(b.hot, one)
			continue
		}
		if len(out) < most {
			out = append(out, Reached{Usage: b.usage(one), Part: one.soft[n-1], number: n, of: one.account})
		}
	}
	return out
}

// reached returns how many thresholds the use has reached.
func (one *record) reached() (n int) {
	if len(one.soft) > one.notified {
		for used := one.use().Settled.Cost(); n < len(one.soft) && used >= one.soft[n]*one.amount.Cost(); {
			n++
		}
	}
	return n
}

// watch notes a record whose use has reached a threshold.
func (b *Book) watch(one *record) {
	if one.reached() > one.notified {
		b.hot[one] = struct{}{}
	}
}

// Delivered notes that a threshold, and those below it, were delivered.
func (b *Book) Delivered(r Reached) {
	if one := b.records[r.of]; one != nil && one.notified < r.number {
		one.notified, one.whole = r.number, true
		b.mark(one, nil)
	}
}

// Part has the used part of a limit's quota: of the client that has used the largest part of its amount.
type Part struct {
	Tenant, Limit string
	Used          float64 // 0.25 = a quarter
}

// Parts returns the limits with the largest parts of the present period, at most so many, the largest first.
func (b *Book) Parts(now time.Time, most int) []Part {
	type limit struct{ tenant, name string }
	highest, present := map[limit]float64{}, map[*periods]int64{}
	for _, one := range b.records {
		p := b.calendars.get(one.Calendar)
		if p == nil || one.amount == 0 {
			continue
		}
		if _, known := present[p]; !known {
			present[p], _, _ = p.at(now)
		}
		if at := (limit{one.Tenant, one.Limit}); one.Period >= present[p] {
			highest[at] = max(highest[at], one.use().Settled.Cost()/one.amount.Cost())
		}
	}
	out := make([]Part, 0, len(highest))
	for at, used := range highest {
		out = append(out, Part{at.tenant, at.name, used})
	}
	slices.SortFunc(out, func(a, b Part) int {
		return cmp.Or(cmp.Compare(b.Used, a.Used), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Limit, b.Limit))
	})
	return out[:min(len(out), max(most, 0))]
}
