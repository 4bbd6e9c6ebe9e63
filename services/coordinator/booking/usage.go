package booking

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
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
	Soft  []float64      // thresholds in force
	Reset config.Instant // the use since then: before that it was another record; 0: all
}

// Selection says which uses are meant: "" is all, but of Period it is the present one.
type Selection struct {
	Tenant, Limit, Client string
	Period                string // present, ended, all, or a name
}

// ErrPlace says that List has not returned a place.
var ErrPlace = errors.New("not a place in the order of keys and periods")

// List returns up to most uses, in order of key and period, after a place in that order, and the place of the last
// one, "" if no more follow. It calls pause between parts of its work: the book may change then.
func (b *Book) List(now time.Time, s Selection, most int, after string, pause func()) (out []Usage, next string,
	err error) {
	var from account
	if after != "" {
		if from, err = placed(after); err != nil {
			return nil, "", err
		}
	}
	m, p := b.moment(now), page{most: most + 1}
	for _, shard := range b.shards {
		for _, one := range shard {
			if m.selects(&s, one) && (after == "" || one.compare(from) > 0) {
				p.add(one.account)
			}
		}
		pause()
	}
	p.cut()
	for i, at := range p.of {
		if i == most {
			return out, p.of[i-1].place(), nil
		}
		if one := b.records[at]; one != nil {
			out = append(out, m.usage(one))
		}
	}
	return out, "", nil
}

// page gathers the first accounts of many.
type page struct {
	most int
	of   []account
	full bool // of begins with as many as are wanted, in order
}

func (p *page) add(a account) {
	if p.full && a.compare(p.of[p.most-1]) > 0 {
		return
	}
	if p.of = append(p.of, a); len(p.of) >= 2*p.most {
		p.cut()
	}
}

func (p *page) cut() {
	slices.SortFunc(p.of, account.compare)
	p.of = p.of[:min(len(p.of), p.most)]
	p.full = len(p.of) == p.most
}

func (a account) compare(b account) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Client, b.Client),
		CompareCalendars(a.Calendar, b.Calendar), cmp.Compare(a.Period, b.Period), cmp.Compare(a.Reset, b.Reset))
}

// place returns the text that placed reads.
func (a account) place() string {
	var out []byte
	for _, text := range []string{a.Tenant, a.Limit, a.Client} {
		out = appendText(out, text)
	}
	out = binary.AppendVarint(appendCalendar(out, a.Calendar), a.Period)
	return string(binary.AppendVarint(out, int64(a.Reset)))
}

func placed(text string) (a account, err error) {
	d := decoder{rest: []byte(text)}
	const most = exchange.MaxKeyName
	a.Tenant, a.Limit, a.Client = d.text(most), d.text(most), d.text(most)
	a.Calendar, a.Period, a.Reset = d.calendar(), d.signed(), config.Instant(d.signed())
	if d.err != nil || len(d.rest) > 0 {
		return account{}, ErrPlace
	}
	return a, nil
}

func (m *moment) selects(s *Selection, one *record) bool {
	if s.Tenant != "" && s.Tenant != one.Tenant || s.Limit != "" && s.Limit != one.Limit ||
		s.Client != "" && s.Client != one.Client {
		return false
	}
	p, present := m.present(one.Calendar)
	if p == nil {
		return false
	}
	switch s.Period {
	case "all":
		return true
	case "", "present":
		return one.Period >= present
	case "ended":
		return one.Period < present
	}
	return m.span(p, one.Period).name == s.Period
}

func (m *moment) usage(one *record) Usage {
	c := one.Calendar
	parts := []string{one.Tenant, one.Limit, one.Client, strconv.Itoa(int(c.Per)), c.Zone,
		strconv.Itoa(int(c.StartsOn)), strconv.FormatInt(one.Period, 10)}
	if one.Reset != 0 {
		parts = append(parts, strconv.FormatInt(int64(one.Reset), 10))
	}
	id := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	u := Usage{Key: one.Key, ID: hex.EncodeToString(id[:16]), Amount: one.amount, Booked: one.given(), Use: one.use(),
		Final: one.final, Lost: one.lost, Soft: one.soft, Reset: one.Reset}
	if p, _ := m.present(c); p != nil {
		in := m.span(p, one.Period)
		u.Period, u.Begins, u.Ends = in.name, in.begins, in.ends
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

// late is the time after a period's end in which its thresholds are still delivered.
const late = 24 * time.Hour

// Reached returns up to most thresholds that were reached and not delivered: the highest of each record.
func (b *Book) Reached(now time.Time, most int) (out []Reached) {
	m := b.moment(now)
	for one := range b.hot {
		n := one.reached()
		p, present := m.present(one.Calendar)
		switch {
		case n <= one.notified || p == nil:
			delete(b.hot, one)
		case one.Period < present && now.Sub(m.span(p, one.Period).ends) > late:
			b.cool(one)
			one.notified, one.whole = n, true
			b.mark(one, nil)
		case len(out) < most:
			out = append(out, Reached{Usage: m.usage(one), Part: one.soft[n-1], number: n, of: one.account})
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

// cool gives up a threshold that was not delivered.
func (b *Book) cool(one *record) {
	if _, is := b.hot[one]; is {
		delete(b.hot, one)
		b.counts.Expired++
	}
}

// Delivered notes that a threshold, and those below it, were delivered.
func (b *Book) Delivered(r Reached) {
	if one := b.records[r.of]; one != nil && one.notified < r.number {
		one.notified, one.whole = r.number, true
		b.mark(one, nil)
	}
}

// resets returns when keys were reset last.
func (b *Book) resets() map[Key]config.Instant {
	out := map[Key]config.Instant{}
	for at := range b.records {
		if at.Reset > out[at.Key] {
			out[at.Key] = at.Reset
		}
	}
	return out
}

// Part has the used part of a limit's quota: of the client that has used the largest part of its amount.
type Part struct {
	Tenant, Limit string
	Used          float64 // 0.25 = a quarter
}

// Parts returns the limits with the largest parts of the present period, at most so many, the largest first. It calls
// pause after each shard: the book may change then.
func (b *Book) Parts(now time.Time, most int, pause func()) []Part {
	type limit struct{ tenant, name string }
	m, highest, resets := b.moment(now), map[limit]float64{}, b.resets()
	for shard := range b.shards {
		for _, one := range b.shards[shard] {
			p, present := m.present(one.Calendar)
			if p == nil || one.amount == 0 || len(resets) > 0 && one.Reset < resets[one.Key] {
				continue
			}
			if at := (limit{one.Tenant, one.Limit}); one.Period >= present {
				highest[at] = max(highest[at], one.use().Settled.Cost()/one.amount.Cost())
			}
		}
		pause()
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
