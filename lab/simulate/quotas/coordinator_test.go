package quotas

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/agent/quotas"
	"github.com/titrate/titrate/services/coordinator/booking"
)

// coordinator is the leader with its book, and what is stored. Package ledger does the same with etcd.
type coordinator struct {
	w       *world
	book    *booking.Book // nil: nobody leads
	term    int           // of the leader
	before  *booking.Book // of the leader's own earlier term, if etcd was restored
	waiting []waiting
	window  bool // a write is planned or under way
	written time.Duration

	journal [][]byte                                 // stored
	stores  func() (took time.Duration, stored bool) // how long the store takes now; not stored: it is away
}

// waiting is an answer that is sent when it is stored.
type waiting struct {
	to     *host
	life   uint64
	answer *controlv1.Booking
	said   bool // that it is not stored yet
}

const (
	window    = 100 * time.Millisecond
	slowAfter = time.Second
)

// quick is a store as it should be.
func (w *world) quick() (time.Duration, bool) {
	return w.between(3*time.Millisecond, 7*time.Millisecond), true
}

// slow is a store that takes seconds.
func (w *world) slow() (time.Duration, bool) { return w.between(time.Second, 10*time.Second), true }

// away is no store. It is tried again.
func (w *world) away() (time.Duration, bool) { return 500 * time.Millisecond, false }

func (c *coordinator) date() time.Time { return begins.Add(c.w.now) }

// lead begins a term: the book is read from what is stored.
func (c *coordinator) lead() {
	c.term++
	c.book = booking.New(func(k booking.Key) (booking.Terms, bool) {
		return booking.Terms{Amount: c.w.terms.Amount, Calendar: monthly}, k.Limit == name.Limit
	})
	for _, v := range c.journal {
		if err := c.book.Replay(c.date(), v, func(int) bool { return true }); err != nil {
			c.w.t.Fatal(err)
		}
	}
	if c.before != nil {
		c.book.Merge(c.date(), c.before)
		c.before = nil
	}
	c.book.Configure([]config.Calendar{monthly})
	c.book.Opened(c.date())
	c.window = false
	c.tidy(c.term)
	for _, h := range c.w.hosts {
		if h.desk != nil {
			h.hello()
		}
	}
}

// tidy is the coordinator's housekeeping.
func (c *coordinator) tidy(term int) {
	if c.term != term || c.book == nil {
		return
	}
	for shard := range booking.Shards {
		c.book.Tidy(c.date(), shard)
		c.book.Settle(c.date(), shard)
	}
	c.w.after(10*time.Minute, func() { c.tidy(term) })
}

// kill ends the leader, and has another one lead later. What was being stored is stored, or not.
func (c *coordinator) kill(later time.Duration) {
	if c.book == nil {
		return
	}
	if c.window && c.w.random.IntN(2) == 0 {
		c.journal = append(c.journal, c.book.Write()...)
	}
	c.book, c.waiting, c.window = nil, nil, false
	c.term++
	c.w.after(later, c.lead)
}

// restore has the store forget what was stored since it held so many values. The leader, if it lives, loses the
// journal and takes it again.
func (c *coordinator) restore(values int) {
	c.journal = c.journal[:values:values]
	if c.book != nil {
		c.before, c.waiting = c.book, nil
		c.lead()
	}
}

// take takes the bookings of an agent.
func (c *coordinator) take(from *host, m *controlv1.Bookings) {
	if c.book == nil || from.desk == nil {
		return
	}
	for _, r := range m.GetRequests() {
		answer, first, store := c.book.Take(c.date(), r)
		one := waiting{to: from, life: from.life, answer: answer}
		if !store {
			c.answer(one)
			continue
		}
		c.waiting = append(c.waiting, one)
		if r.GetNumber() == 1 && r.GetWanted() > 0 {
			c.later(calendar.SlowAfter, func() { c.answer(notStored(one)) })
		}
		if !c.window {
			c.window = true
			rest := max(0, c.written+window-c.w.now)
			if first {
				rest = 0
			}
			c.later(rest, c.write)
		}
	}
}

// later does something in the same term.
func (c *coordinator) later(d time.Duration, do func()) {
	term := c.term
	c.w.after(d, func() {
		if c.term == term && c.book != nil {
			do()
		}
	})
}

// write stores what has changed, and then sends the answers that waited for it.
func (c *coordinator) write() {
	values, answers := c.book.Write(), c.waiting
	c.waiting, c.written = nil, c.w.now
	c.later(slowAfter, func() { c.sayAway(answers) })
	c.commit(values, answers)
}

func (c *coordinator) commit(values [][]byte, answers []waiting) {
	took, stored := c.stores()
	c.later(took, func() {
		if !stored {
			c.commit(values, answers)
			return
		}
		c.journal = append(c.journal, values...)
		for i := range answers {
			answers[i].said = true
			c.answer(answers[i])
		}
		if c.window = len(c.waiting) > 0; c.window {
			c.write()
		}
	})
}

// sayAway answers what the store takes long for.
func (c *coordinator) sayAway(answers []waiting) {
	for i := range answers {
		if one := &answers[i]; !one.said {
			one.said = true
			c.answer(notStored(*one))
		}
	}
}

// notStored is the answer while it is not stored.
func notStored(a waiting) waiting {
	b := proto.CloneOf(a.answer)
	b.From = b.GetAmount() - b.GetLeft() - (b.GetTo() - b.GetFrom())
	b.To, b.Reason = b.GetFrom(), controlv1.Booking_REASON_STORE_AWAY
	return waiting{to: a.to, life: a.life, answer: b}
}

func (c *coordinator) answer(a waiting) {
	c.w.after(time.Millisecond, func() {
		if a.to.desk != nil && a.to.life == a.life {
			a.to.desk.Booked(c.w.now, quotas.DecodeBooked(&controlv1.Booked{Bookings: []*controlv1.Booking{a.answer}}))
			a.to.flush()
		}
	})
}

// announce says which period it is, each minute.
func (c *coordinator) announce() {
	for _, h := range c.w.hosts {
		if h.desk != nil {
			h.announce()
		}
	}
	c.w.after(time.Minute, c.announce)
}

// hello opens the stream of an agent to the leader.
func (h *host) hello() {
	h.announce()
	if h.w.book != nil {
		h.desk.Report(h.w.now)
		h.flush()
	}
}

func (h *host) announce() {
	c := &h.w.coordinator
	if c.book == nil {
		return
	}
	var list []quotas.Period
	for _, p := range c.book.Announce(c.date()) {
		list = append(list, quotas.Period{Calendar: p.Calendar, Number: p.Number, Left: p.Left, Next: p.Next})
	}
	h.desk.SetPeriods(h.w.now, list)
	h.flush()
}
