package booking_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/services/coordinator/booking"
)

// All sessions that are known have ended in order, but another agent still has use: its stream was down, or there was
// no leader for long.
func TestUseThatComesAfterTheEndIsCounted(t *testing.T) {
	end := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	for name, opened := range map[string]time.Time{"the stream was down": noon, "no leader": end.Add(3 * time.Hour)} {
		b := booking.New(terms(amount))
		r := request(1, 1, 10)
		b.Take(noon, r)
		r = request(1, 1, 0)
		r.Settled, r.Final = 8, true
		b.Take(noon.Add(time.Second), r)
		b.Opened(opened)
		from := end
		if opened.After(end) {
			from = opened
		}
		at := from.Add(50 * time.Minute)
		tidy(b, at)
		r = request(2, 1, 0)
		r.Settled, r.Final = 5, true
		b.Take(at, r)
		other := request(3, 1, 0)
		other.Client, other.Refused = []byte("not known before"), 5
		b.Take(at, other)
		tidy(b, from.Add(61*time.Minute))
		all := list(b, at, "all")
		if len(all) != 2 || all[0].Settled != 13 || !all[0].Final || all[1].Refused != 5 || b.Counts().LateUse != 0 {
			t.Errorf("%s: %+v, %+v", name, all, b.Counts())
		}
	}
}

// list returns all uses of periods.
func list(b *booking.Book, now time.Time, period string) []booking.Usage {
	all, _, _ := b.List(now, booking.Selection{Period: period}, 100_000, "", func() {})
	return all
}

// Pages have each use once, in order, also of names with any bytes and of two calendars; a book that changes between
// parts of a page does no harm.
func TestPages(t *testing.T) {
	weekly := config.Calendar{Per: config.Week, Zone: "Asia/Tokyo", StartsOn: 1}
	of := daily
	b := booking.New(func(booking.Key) (booking.Terms, bool) {
		return booking.Terms{Amount: amount, Calendar: of}, true
	})
	want := 0
	for n := range 2000 {
		r := request(1, 1, 10)
		r.Client, r.Tenant = []byte(fmt.Sprint("k\x00", n%700)), fmt.Sprint("t", n%3)
		if of = daily; n%5 == 0 {
			of = weekly
			r.Calendar, r.Period = booking.Wire(weekly), 2969
		}
		if _, first, _ := b.Take(noon, r); first && n%3 == 1 {
			want++
		}
	}
	var got []booking.Usage
	after, parts := "", 0
	for pages := 0; pages == 0 || after != ""; pages++ {
		one, next, err := b.List(noon, booking.Selection{Tenant: "t1"}, 7, after, func() { parts++ })
		if err != nil || len(one) == 0 || len(one) > 7 {
			t.Fatal(len(one), err)
		}
		got, after = append(got, one...), next
	}
	ids := map[string]bool{}
	for i, u := range got {
		if ids[u.ID] = true; u.Tenant != "t1" || i > 0 && u.Client < got[i-1].Client {
			t.Fatalf("%+v", u)
		}
	}
	if len(got) != want || len(ids) != want || want < 500 || parts < booking.Shards {
		t.Errorf("%d uses, %d of them different, want %d; %d parts", len(got), len(ids), want, parts)
	}
	if _, _, err := b.List(noon, booking.Selection{}, 7, "x", func() {}); !errors.Is(err, booking.ErrPlace) {
		t.Error(err)
	}
	removed := false
	if _, _, err := b.List(noon, booking.Selection{}, 10, "", func() {
		if removed = true; len(b.Write()) > 0 {
			tidy(b, noon.AddDate(1, 0, 0))
			tidy(b, noon.AddDate(1, 0, 0))
		}
	}); err != nil || !removed || b.Records() != 0 {
		t.Error(err, b.Records())
	}
}

func TestThresholds(t *testing.T) {
	b := booking.New(terms(amount))
	use := func(n calendar.Units) []booking.Reached {
		r := request(1, 1, 10)
		r.Settled = int64(n)
		take(b, r)
		return b.Reached(noon, 10)
	}
	if r := use(amount/2 - 1); len(r) != 0 {
		t.Errorf("below: %+v", r)
	}
	r := use(amount / 2)
	if len(r) != 1 || r[0].Part != .5 || r[0].Client != "k" {
		t.Fatalf("at half: %+v", r)
	}
	b.Delivered(r[0])
	if r := use(amount - 1); len(r) != 0 {
		t.Errorf("again: %+v", r)
	}
	if r = use(amount); len(r) != 1 || r[0].Part != 1 {
		t.Errorf("at all: %+v", r)
	}
}

// A threshold that is reached just before midnight is delivered for a day, also by another coordinator, and then
// counted.
func TestThresholdsOutliveTheirPeriod(t *testing.T) {
	b := booking.New(terms(amount))
	r := request(1, 1, 10)
	r.Settled, r.Final = int64(amount), true
	take(b, r)
	end := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	tidy(b, end.Add(2*time.Hour))
	read := booking.New(terms(amount))
	for _, v := range b.Write() {
		if err := read.Replay(end, v, func(int) bool { return true }); err != nil {
			t.Fatal(err)
		}
	}
	tidy(read, end.Add(3*time.Hour))
	for name, one := range map[string]*booking.Book{"the same": b, "the next": read} {
		if got := one.Reached(end.Add(23*time.Hour), 10); len(got) != 1 || !got[0].Final {
			t.Errorf("%s: %+v", name, got)
		}
		for range 2 {
			got := one.Reached(end.Add(25*time.Hour), 10)
			tidy(one, end.Add(25*time.Hour))
			if len(got) != 0 || one.Counts().Expired != 1 {
				t.Errorf("%s: %+v, %+v", name, got, one.Counts())
			}
		}
	}
}

// The clock of a leader jumps ahead and back. A period that has begun goes on until its true end, so no amount is given
// twice, and nobody begins the next one again.
func TestClockJumps(t *testing.T) {
	for _, days := range []int{1, 3} {
		b := booking.New(terms(amount))
		b.Configure([]config.Calendar{daily})
		b.Announce(noon)
		take(b, request(1, 1, amount))
		ahead := noon.AddDate(0, 0, days)
		b.Announce(ahead)
		r := request(2, 1, amount)
		r.Period = day + int64(days)
		if got, _, _ := b.Take(ahead, r); got.GetTo() != uint64(amount) {
			t.Fatalf("%d days ahead: %v", days, got)
		}
		back := noon.Add(time.Hour)
		p := b.Announce(back)[0]
		if want := time.Duration(24*(days+1)-13) * time.Hour; p.Number != day+int64(days) || p.Left != want {
			t.Errorf("%d days ahead, then back: %+v, want %v left", days, p, want)
		}
		for period := int64(day); period <= day+int64(days); period++ {
			r := request(3, uint64(period), 1)
			if r.Period = period; period < day+int64(days) {
				r.Session = 4
			}
			if got, _, _ := b.Take(back, r); got.GetTo() != got.GetFrom() {
				t.Errorf("%d days ahead, then back: period %d gives %v", days, period, got)
			}
		}
	}
}
