package booking_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/booking"
)

var daily = config.Calendar{Per: config.Day, Zone: "UTC"}

const amount = 1000 * calendar.Unit

// noon is within a period, and day its number.
var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

const day = 20785

func terms(a calendar.Units) func(booking.Key) (booking.Terms, bool) {
	return func(k booking.Key) (booking.Terms, bool) {
		return booking.Terms{Amount: a, Calendar: daily, Soft: []float64{.5, 1}}, k.Limit == "daily"
	}
}

func request(session, number uint64, wanted calendar.Units) *controlv1.BookingRequest {
	return &controlv1.BookingRequest{Tenant: "acme", Limit: "daily", Client: []byte("k"), Session: session,
		Number: number, Calendar: booking.Wire(daily), Period: day, Wanted: uint64(wanted)}
}

func take(b *booking.Book, r *controlv1.BookingRequest) *controlv1.Booking {
	out, _, _ := b.Take(noon, r)
	return out
}

// given are the intervals that sessions may use, by what they know.
type given struct{ from, to uint64 }

func overlap(all []given) (sum uint64, err error) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b given) int { return int(int64(a.from) - int64(b.from)) })
	for i, g := range all {
		sum += g.to - g.from
		if i > 0 && g.from < all[i-1].to {
			return sum, fmt.Errorf("%v and %v overlap", all[i-1], g)
		}
	}
	return sum, nil
}

// Owners book, repeat, give back and are lost; the coordinator is lost and reads what was stored. Intervals never
// overlap, and their sum is at most the amount.
func TestIntervalsAreDisjoint(t *testing.T) {
	for seed := range uint64(200) {
		world := &owners{random: rand.New(rand.NewPCG(seed, 1)), book: booking.New(terms(amount)), sessions: map[uint64]*owner{}}
		for range 400 {
			world.step(t)
		}
		if _, err := overlap(world.all()); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

type owner struct {
	number uint64
	open   *controlv1.BookingRequest
	has    []given
}

type owners struct {
	random   *rand.Rand
	book     *booking.Book
	sessions map[uint64]*owner
	stored   [][]byte
	last     uint64
}

func (w *owners) all() (out []given) {
	for _, o := range w.sessions {
		out = append(out, o.has...)
	}
	return out
}

func (w *owners) step(t *testing.T) {
	t.Helper()
	switch n := w.random.IntN(20); {
	case n == 0: // another coordinator reads what is stored; what was not, was not answered
		before := w.book.Write()
		if w.random.IntN(2) == 0 { // it was stored, and the answer lost
			w.stored = append(w.stored, before...)
		}
		w.book = booking.New(terms(amount))
		for _, v := range w.stored {
			if err := w.book.Replay(noon, v, func(int) bool { return true }); err != nil {
				t.Fatal(err)
			}
		}
	case n == 1 || len(w.sessions) == 0:
		w.last++
		w.sessions[w.last] = &owner{}
	default:
		ids := make([]uint64, 0, len(w.sessions))
		for id := range w.sessions {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		id := ids[w.random.IntN(len(ids))]
		w.ask(t, id, w.sessions[id])
	}
	sum, err := overlap(w.all())
	if err != nil || sum > uint64(amount) {
		t.Fatalf("%d of %d are given: %v", sum, amount, err)
	}
}

func (w *owners) ask(t *testing.T, id uint64, o *owner) {
	t.Helper()
	r := o.open
	if r == nil {
		wanted := calendar.Units(w.random.Int64N(int64(amount / 20)))
		r = request(id, o.number+1, wanted)
		if last := len(o.has) - 1; last >= 0 && w.random.IntN(3) == 0 { // it gives back, at most what it has
			g := &o.has[last]
			r = request(id, o.number, 0)
			if g.to-g.from > 1 {
				g.to -= w.random.Uint64N(g.to - g.from - 1)
				r.Returned = g.to
			}
		}
	}
	answer, _, store := w.book.Take(noon, r)
	o.open = r
	if store {
		if w.random.IntN(4) == 0 {
			return // the answer is not sent: not stored yet
		}
		w.stored = append(w.stored, w.book.Write()...)
	}
	if w.random.IntN(4) == 0 {
		return // it is lost: the owner repeats
	}
	o.open = nil
	if answer.GetTo() > answer.GetFrom() && r.GetWanted() > 0 {
		o.number = r.GetNumber()
		o.has = append(o.has, given{answer.GetFrom(), answer.GetTo()})
	}
}

func TestARepeatGetsTheSameInterval(t *testing.T) {
	b := booking.New(terms(amount))
	one := take(b, request(1, 1, 10))
	other := take(b, request(2, 1, 10))
	again := take(b, request(1, 1, 500))
	if again.GetFrom() != one.GetFrom() || again.GetTo() != one.GetTo() || other.GetFrom() != one.GetTo() {
		t.Errorf("%v, %v, then %v", one, other, again)
	}
}

func TestReasons(t *testing.T) {
	b := booking.New(terms(amount))
	for name, c := range map[string]struct {
		change func(*controlv1.BookingRequest)
		want   controlv1.Booking_Reason
	}{
		"no such limit":    {func(r *controlv1.BookingRequest) { r.Limit = "other" }, controlv1.Booking_REASON_NOT_CONFIGURED},
		"another calendar": {func(r *controlv1.BookingRequest) { r.Calendar.Zone = "Asia/Tokyo" }, controlv1.Booking_REASON_NOT_CONFIGURED},
		"yesterday":        {func(r *controlv1.BookingRequest) { r.Period-- }, controlv1.Booking_REASON_OTHER_PERIOD},
		"tomorrow":         {func(r *controlv1.BookingRequest) { r.Period++ }, controlv1.Booking_REASON_OTHER_PERIOD},
		"too much":         {func(r *controlv1.BookingRequest) { r.Wanted = uint64(amount) + 1 }, controlv1.Booking_REASON_USED_UP},
	} {
		r := request(7, 1, 10)
		c.change(r)
		if got := take(b, r).GetReason(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestTheAmountChanges(t *testing.T) {
	now := amount
	b := booking.New(func(k booking.Key) (booking.Terms, bool) { return terms(now)(k) })
	take(b, request(1, 1, amount))
	if r := take(b, request(1, 2, 1)); r.GetReason() != controlv1.Booking_REASON_USED_UP || r.GetTo() != r.GetFrom() {
		t.Errorf("beyond the amount: %v", r)
	}
	now = 2 * amount
	if r := take(b, request(1, 3, 10)); r.GetTo()-r.GetFrom() != 10 || r.GetLeft() != uint64(amount-10) {
		t.Errorf("after it rose: %v", r)
	}
	now = amount / 2
	if r := take(b, request(1, 4, 10)); r.GetTo() != r.GetFrom() || r.GetLeft() != 0 {
		t.Errorf("after it fell: %v", r)
	}
}

// etcd was restored from a backup of the morning: the owner knows more.
func TestWhatOwnersKnowIsNotGivenAgain(t *testing.T) {
	b := booking.New(terms(amount))
	take(b, request(1, 1, 100))
	r := request(1, 9, 50)
	r.Known = 700
	if got := take(b, r); got.GetFrom() != 700 {
		t.Errorf("%v", got)
	}
	if b.Counts().Restored != 1 {
		t.Errorf("%+v", b.Counts())
	}
}

func TestPeriodsChange(t *testing.T) {
	b := booking.New(terms(amount))
	b.Configure([]config.Calendar{daily})
	midnight := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	r := request(1, 1, 10)
	r.Period = day + 1
	for _, c := range []struct {
		at   time.Time
		open bool
	}{{midnight.Add(-6 * time.Second), false}, {midnight.Add(-4 * time.Second), true}, {midnight, true}} {
		got, _, _ := b.Take(c.at, r)
		if open := got.GetReason() != controlv1.Booking_REASON_OTHER_PERIOD; open != c.open {
			t.Errorf("%v before: open %v", midnight.Sub(c.at), open)
		}
	}
	if p := b.Announce(midnight); p[0].Number != day+1 || p[0].Left != 24*time.Hour {
		t.Errorf("%+v", p)
	}
	// The clock of the next leader is two seconds behind: the number does not go back.
	next := booking.New(terms(amount))
	next.Configure([]config.Calendar{daily})
	for _, v := range b.Write() {
		if err := next.Replay(noon, v, func(int) bool { return true }); err != nil {
			t.Fatal(err)
		}
	}
	if p := next.Announce(midnight.Add(-2 * time.Second)); p[0].Number != day+1 || p[0].Left != 24*time.Hour+2*time.Second {
		t.Errorf("%+v", p)
	}
}

func TestRecordsBecomeFinal(t *testing.T) {
	for name, c := range map[string]struct {
		final bool
		after time.Duration
		lost  int32
	}{"in order": {true, 61 * time.Minute, 0}, "an agent was lost": {false, 62 * time.Minute, 1}} {
		b := booking.New(terms(amount))
		take(b, request(1, 1, 10))
		end := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
		r := request(1, 1, 0)
		r.Admitted, r.Settled, r.Final = 7, 8, c.final
		b.Take(end.Add(time.Second), r)
		tidy(b, end.Add(c.after/2))
		if u := only(t, b, end); u.Final {
			t.Errorf("%s: final too soon", name)
		}
		tidy(b, end.Add(c.after))
		if u := only(t, b, end); !u.Final || u.Settled != 8 || u.Lost != c.lost || u.Period != "2026-11-28" {
			t.Errorf("%s: %+v", name, u)
		}
		b.Take(end.Add(c.after), r)
		if got, want := b.Counts().LateUse, uint64(c.lost); got != want { // a session that ended repeats its end
			t.Errorf("%s: %d uses came late, want %d", name, got, want)
		}
		r.Session, r.Admitted = 2, 900
		b.Take(end.Add(c.after), r)
		if u := only(t, b, end); u.Admitted != 7 || b.Counts().Late != 2 || b.Counts().LateUse != uint64(c.lost)+1 {
			t.Errorf("%s: it changes, or is not counted: %+v, %+v", name, u, b.Counts())
		}
		tidy(b, end.AddDate(0, 0, booking.Kept))
		if b.Records() != 0 {
			t.Errorf("%s: kept for ever", name)
		}
	}
}

func tidy(b *booking.Book, now time.Time) {
	for shard := range booking.Shards {
		b.Tidy(now, shard)
		b.Settle(now, shard)
	}
}

func only(t *testing.T, b *booking.Book, now time.Time) booking.Usage {
	t.Helper()
	all := list(b, now, "all")
	if len(all) != 1 {
		t.Fatalf("%d records", len(all))
	}
	return all[0]
}

// A book that is read back from shards and the values after them equals the book that was written.
func TestShardsAndValues(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	b := booking.New(terms(amount))
	var values [][]byte
	shards, positions := map[int][]byte{}, map[int]uint64{}
	for n := range 3000 {
		r := request(1+random.Uint64N(3), uint64(n+1), 1+calendar.Units(random.IntN(1000)))
		r.Client = fmt.Append(nil, "client", random.IntN(500))
		r.Admitted = uint64(n)
		b.Take(noon, r)
		if n%10 == 0 {
			values = append(values, b.Write()...)
			shard := random.IntN(booking.Shards)
			positions[shard] = uint64(len(values) - 1)
			shards[shard] = b.Fold(shard, positions[shard])
		}
	}
	values = append(values, b.Write()...)
	read := booking.New(terms(amount))
	for shard, packed := range shards {
		if at, err := read.RestoreShard(noon, shard, packed); err != nil || at != positions[shard] {
			t.Fatal(at, err)
		}
	}
	for i, v := range values {
		after := func(shard int) bool { at, is := positions[shard]; return !is || uint64(i) > at }
		if err := read.Replay(noon, v, after); err != nil {
			t.Fatal(err)
		}
	}
	want := list(b, noon, "")
	got := list(read, noon, "")
	if len(want) < 400 || len(got) != len(want) {
		t.Fatalf("%d and %d", len(want), len(got))
	}
	for i := range want {
		want[i].Soft = nil
		if fmt.Sprint(got[i]) != fmt.Sprint(want[i]) {
			t.Fatalf("%+v\n%+v", got[i], want[i])
		}
	}
	if n := read.Counts().Unreadable; n != 0 {
		t.Error(n)
	}
}

func FuzzValues(f *testing.F) {
	b := booking.New(terms(amount))
	take(b, request(1, 1, 10))
	for _, v := range b.Write() {
		f.Add(v)
	}
	f.Add(b.Fold(1, 5))
	f.Fuzz(func(_ *testing.T, value []byte) {
		into := booking.New(terms(amount))
		_ = into.Replay(noon, value, func(int) bool { return true })
		_, _ = into.RestoreShard(noon, 1, value)
		tidy(into, noon)
		_, _, _ = into.List(noon, booking.Selection{Period: "all"}, 10, string(value), func() {})
		into.Write()
	})
}

func FuzzRequests(f *testing.F) {
	f.Add(uint64(1), uint64(1), uint64(5), uint64(3), uint64(2), uint64(9), true, int64(day), int32(1))
	f.Fuzz(func(t *testing.T, session, number, wanted, known, returned, used uint64, final bool, period int64, per int32) {
		b := booking.New(terms(amount))
		take(b, request(1, 1, 10))
		r := &controlv1.BookingRequest{Tenant: "acme", Limit: "daily", Client: []byte("k"), Session: session, Number: number,
			Period: period, Wanted: wanted, Known: known, Returned: returned, Admitted: used, Settled: int64(used), Refused: used,
			Final: final, Calendar: &controlv1.Calendar{Per: controlv1.Calendar_Unit(per), Zone: "UTC"}}
		if booking.Check(&controlv1.Bookings{Requests: []*controlv1.BookingRequest{r}}) != nil {
			return
		}
		for range 2 {
			if got := take(b, r); got.GetTo() > uint64(amount) || got.GetFrom() > got.GetTo() || got.GetFrom() < 10 &&
				session != 1 && got.GetTo() > 0 && got.GetFrom() != got.GetTo() {
				t.Fatalf("%v", got)
			}
		}
	})
}

func TestBoundsOfMessages(t *testing.T) {
	longest := strings.Repeat("k", 1024-len("acmedaily"))
	for name, c := range map[string]struct {
		change func(*controlv1.BookingRequest)
		ok     bool
	}{
		"the longest key":   {func(r *controlv1.BookingRequest) { r.Client = []byte(longest) }, true},
		"a longer one":      {func(r *controlv1.BookingRequest) { r.Client = []byte(longest + "k") }, false},
		"no tenant":         {func(r *controlv1.BookingRequest) { r.Tenant = "" }, false},
		"no session":        {func(r *controlv1.BookingRequest) { r.Session = 0 }, false},
		"too much":          {func(r *controlv1.BookingRequest) { r.Settled = int64(calendar.MaxUnits) + 1 }, false},
		"a low correction":  {func(r *controlv1.BookingRequest) { r.Settled = -int64(calendar.MaxUnits) - 1 }, false},
		"a correction":      {func(r *controlv1.BookingRequest) { r.Settled = -5 }, true},
		"a long zone":       {func(r *controlv1.BookingRequest) { r.Calendar.Zone = strings.Repeat("z", 65) }, false},
		"a day out of days": {func(r *controlv1.BookingRequest) { r.Calendar.StartsOn = -1 }, false},
	} {
		r := request(1, 1, 10)
		c.change(r)
		if err := booking.Check(&controlv1.Bookings{Requests: []*controlv1.BookingRequest{r}}); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if booking.Check(&controlv1.Bookings{Requests: make([]*controlv1.BookingRequest, 4097)}) == nil {
		t.Error("a long message is taken")
	}
}

// Costs that turn out lower after another owner took over are negative in its session. They lower the sum.
func TestCorrectionsOfAnotherSession(t *testing.T) {
	b := booking.New(terms(amount))
	r := request(1, 1, 100)
	r.Admitted, r.Settled, r.Final = 50, 50, true
	take(b, r)
	r = request(2, 1, 10)
	r.Admitted, r.Settled = 10, -20
	take(b, r)
	read := booking.New(terms(amount))
	for _, v := range b.Write() {
		if err := read.Replay(noon, v, func(int) bool { return true }); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range map[string]*booking.Book{"first": b, "read back": read} {
		if u := only(t, b, noon); u.Admitted != 60 || u.Settled != 30 {
			t.Errorf("%s: %+v", name, u)
		}
	}
	r.Settled = -500
	take(b, r)
	if u := only(t, b, noon); u.Settled != 0 {
		t.Errorf("a negative sum: %+v", u)
	}
}

// An owner of a key that is seldom used begins a session with each request. The record stays small, and its sum exact.
func TestSessionsThatEndedArePutTogether(t *testing.T) {
	for name, tidies := range map[string]bool{"in time": true, "with the next request": false} {
		random := rand.New(rand.NewPCG(1, 2))
		b := booking.New(terms(amount))
		now, end, last := noon.Add(-12*time.Hour), uint64(0), uint64(0)
		for range 300 {
			session := random.Uint64()
			got, _, _ := b.Take(now, request(session, 1, 10))
			if got.GetFrom() < end || got.GetTo() != got.GetFrom()+10 {
				t.Fatalf("%s: %v after %d", name, got, end)
			}
			r := request(session, 1, 0)
			r.Admitted, r.Settled, r.Returned, r.Final = 5, 6, got.GetFrom()+6, true
			b.Take(now, r)
			b.Take(now.Add(10*time.Second), r)
			end, last = got.GetFrom()+6, session
			now = now.Add(2 * time.Minute)
			if tidies {
				tidy(b, now)
			}
		}
		if u := only(t, b, now); u.Admitted != 1500 || u.Settled != 1800 || u.Booked != 1800 || u.Lost != 0 {
			t.Errorf("%s: %+v", name, u)
		}
		if n, size := b.Counts().Folded, len(b.Fold(1, 0)); n != 0 || size > 400 {
			t.Errorf("%s: %d sessions are put together early, a record has %d bytes", name, n, size)
		}
		again := request(last, 1, 0)
		again.Admitted, again.Settled, again.Final = 5, 6, true
		if !tidies {
			b.Take(now, again)
		}
		if u := only(t, b, now); u.Settled != 1800 {
			t.Errorf("%s: after the end came once more: %+v", name, u)
		}
	}
}

// An owner gives back of all its intervals that lie one after the other, not of the last one alone.
func TestSeveralIntervalsComeBack(t *testing.T) {
	b := booking.New(terms(amount))
	for number := range uint64(3) {
		take(b, request(1, number+1, 10))
	}
	back := request(1, 3, 0)
	back.Returned, back.Known, back.Final = 12, 12, true
	take(b, back)
	if got := take(b, request(2, 1, 30)); got.GetFrom() != 12 || got.GetLeft() != uint64(amount)-42 {
		t.Errorf("after 12 of 30 were used: %v", got)
	}
	take(b, request(1, 4, 10)) // it has ended
	take(b, request(2, 2, 10))
	take(b, request(3, 1, 10))
	take(b, request(2, 3, 10)) // with a gap: only this one comes back
	back = request(2, 3, 0)
	back.Returned = 20
	take(b, back)
	if got := take(b, request(4, 1, 50)); got.GetFrom() != 62 || got.GetReason() != 0 {
		t.Errorf("of intervals with a gap: %v", got)
	}
}
