package booking_test

import (
	"testing"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/booking"
)

// A key that is reset has the whole amount again, in a record of its own. What was used stays in the record before,
// whose owner may say the rest. A reset that is not configured gives nothing. After a rollback the first record goes
// on. Both records are read again as they were.
func TestAResetHasARecordOfItsOwn(t *testing.T) {
	reset := config.Instant(0)
	configured := func(booking.Key) (booking.Terms, bool) {
		return booking.Terms{Amount: amount, Calendar: daily, Reset: reset}, true
	}
	b := booking.New(configured)
	ask := func(session, number uint64, wanted calendar.Units, since config.Instant) *controlv1.Booking {
		r := request(session, number, wanted)
		r.Reset_ = int64(since)
		return take(b, r)
	}
	if got := ask(1, 1, 2*amount, 0); got.GetTo()-got.GetFrom() != uint64(amount) {
		t.Fatalf("at first %v", got)
	}
	if got := ask(2, 1, amount, 77); got.GetTo() != 0 || got.GetReason() != controlv1.Booking_REASON_NOT_CONFIGURED {
		t.Errorf("a reset that nobody asked for gives %v", got)
	}
	reset = 77
	if got := ask(1, 2, amount, 0); got.GetTo() != 0 {
		t.Errorf("the record before gives %v", got)
	}
	if got := ask(3, 1, amount/4, 77); got.GetTo()-got.GetFrom() != uint64(amount/4) || got.GetAmount() != uint64(amount) {
		t.Errorf("after the reset %v", got)
	}
	last := request(1, 1, 0)
	last.Admitted, last.Settled, last.Final = 900, 900, true
	take(b, last)
	read := booking.New(configured)
	for shard := range booking.Shards {
		if _, err := read.RestoreShard(noon, shard, b.Fold(shard, 1)); err != nil {
			t.Fatal(err)
		}
	}
	for _, one := range []*booking.Book{b, read} {
		all := list(one, noon, "all")
		if len(all) != 2 || all[0].Reset != 0 || all[0].Settled != 900 || all[1].Reset != 77 ||
			all[1].Booked != amount/4 || all[0].ID == all[1].ID {
			t.Errorf("%+v", all)
		}
		page, next, err := one.List(noon, booking.Selection{}, 1, "", func() {})
		if err != nil || next == "" || page[0].Reset != 0 {
			t.Fatal(page, next, err)
		}
		if page, next, err = one.List(noon, booking.Selection{}, 1, next, func() {}); err != nil || next != "" ||
			page[0].Reset != 77 {
			t.Errorf("the second page has %+v, %v", page, err)
		}
		if parts := one.Parts(noon, 9, func() {}); len(parts) != 1 || parts[0].Used != 0 {
			t.Errorf("the used part is of the record since the reset: %+v", parts)
		}
	}
	reset = 0
	if got := ask(4, 1, amount, 0); got.GetTo() != 0 || got.GetReason() != controlv1.Booking_REASON_USED_UP {
		t.Errorf("taken back: %v", got)
	}
}
