package booking_test

import (
	"testing"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/booking"
)

// stored returns a book of what was stored.
func stored(t *testing.T, values ...[][]byte) *booking.Book {
	t.Helper()
	b := booking.New(terms(amount))
	for _, list := range values {
		for _, v := range list {
			if err := b.Replay(noon, v, func(int) bool { return true }); err != nil {
				t.Fatal(err)
			}
		}
	}
	return b
}

func used(session, number, used uint64, final bool) *controlv1.BookingRequest {
	r := request(session, number, 0)
	r.Admitted, r.Settled, r.Final = used, int64(used), final
	return r
}

// A leader gives an interval that it cannot store, another one gives its units, and the first one leads again.
func TestAnIntervalThatWasNotStoredIsNotTakenBack(t *testing.T) {
	first := booking.New(terms(amount))
	take(first, request(1, 1, 50))
	values := first.Write()
	lost := take(first, request(1, 2, 50))
	take(first, request(3, 1, 20))
	second := stored(t, values)
	given := take(second, request(2, 1, 100))
	again := stored(t, values, second.Write())
	again.Merge(noon, first)
	for _, r := range []*controlv1.BookingRequest{request(1, 2, 50), request(3, 1, 20)} {
		if got := take(again, r); got.GetTo() <= got.GetFrom() || got.GetFrom() < given.GetTo() {
			t.Errorf("%v was not answered, %v is given, and then %v", lost, given, got)
		}
	}
	if got := take(again, request(2, 1, 100)); got.GetFrom() != given.GetFrom() || got.GetTo() != given.GetTo() {
		t.Errorf("%v, and its repeat %v", given, got)
	}
}

// Sessions that were put together here or there, before or after, are counted once.
func TestMergeCountsSessionsOnce(t *testing.T) {
	later := noon.Add(10 * time.Minute)
	begin := func() (*booking.Book, [][]byte) {
		b := booking.New(terms(amount))
		take(b, request(1, 1, 50))
		take(b, used(1, 1, 40, true))
		return b, b.Write()
	}
	t.Run("by the other leader", func(t *testing.T) {
		first, values := begin()
		second := stored(t, values)
		take(second, used(2, 1, 5, false))
		tidy(second, later)
		again := stored(t, values, second.Write())
		again.Merge(later, first)
		if u := only(t, again, later); u.Settled != 45 {
			t.Errorf("%+v", u)
		}
	})
	t.Run("before etcd was restored", func(t *testing.T) {
		first, values := begin()
		tidy(first, later)
		again := stored(t, values)
		again.Merge(later, first)
		if u := only(t, again, later); u.Settled != 40 {
			t.Errorf("%+v", u)
		}
	})
	t.Run("of a final record", func(t *testing.T) {
		first, values := begin()
		after := noon.Add(24 * time.Hour)
		tidy(first, after)
		if !only(t, first, after).Final {
			t.Fatal("it is not final")
		}
		for name, again := range map[string]*booking.Book{"from a backup": stored(t, values), "emptied": stored(t)} {
			again.Merge(after, first)
			tidy(again, after)
			if u := only(t, again, after); u.Settled != 40 || !u.Final || u.Booked != 50 {
				t.Errorf("%s: %+v", name, u)
			}
		}
	})
}

// More sessions than a record may have are put together when both books have different ones.
func TestMergeBoundsSessions(t *testing.T) {
	first := booking.New(terms(amount))
	take(first, request(1, 1, 10))
	values := first.Write()
	second := stored(t, values)
	for i := range uint64(60) {
		take(first, request(100+i, 1, 1))
		take(second, request(200+i, 1, 1))
	}
	again := stored(t, values, second.Write())
	again.Merge(noon, first)
	if u := only(t, stored(t, again.Write()), noon); u.Booked != 70 || u.Lost < 50 {
		t.Errorf("%+v", u)
	}
}

// An owner repeats the end of a session until it is confirmed, also after the session was put together with others.
func TestEndsCountOnce(t *testing.T) {
	b := booking.New(terms(amount))
	r := request(1, 1, 10)
	b.Take(noon, r)
	r.Wanted, r.Admitted, r.Settled, r.Final = 0, 7, 7, true
	for after := range 10 {
		at := noon.Add(time.Duration(after) * 2 * time.Minute)
		b.Take(at, r)
		for shard := range booking.Shards {
			b.Settle(at, shard)
		}
	}
	if u := only(t, b, noon); u.Admitted != 7 || u.Settled != 7 {
		t.Errorf("an end that came ten times: %+v", u)
	}
}
