package ledger

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/booking"
)

// announce notes the present periods, and has agents sent them if they have changed or one of them ends soon.
func (l *Ledger) announce(now time.Time) {
	l.mu.Lock()
	if l.book == nil {
		l.mu.Unlock()
		return
	}
	before := l.announced
	l.announced = l.book.Announce(now)
	changed := before == nil || !slices.EqualFunc(before, l.announced, func(a, b booking.Period) bool {
		return a.Calendar == b.Calendar && a.Number == b.Number && a.Soon() == b.Soon()
	})
	if l.announced == nil {
		l.announced = []booking.Period{}
	}
	if changed {
		l.generation++
	}
	l.mu.Unlock()
	if changed {
		notify(l.work) // numbers are stored
		l.o.Changed()
	}
}

// Periods returns the present periods for an agent, and a number that changes when agents are to be sent them again.
// Nil: the agent has those of that number already, or no bookings are taken here.
func (l *Ledger) Periods(has uint64) (m *controlv1.Periods, generation uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.book == nil || l.generation == has {
		return nil, l.generation
	}
	m = &controlv1.Periods{}
	for _, p := range l.book.Announce(time.Now()) {
		m.Periods = append(m.Periods, &controlv1.Period{Calendar: booking.Wire(p.Calendar), Number: p.Number,
			Left: durationpb.New(p.Left), Next: durationpb.New(p.Next)})
	}
	return m, l.generation
}

// List returns up to most uses after a place, and the place of the last one, "" if no more follow. ErrAway: the use
// is not known here. Bookings go on meanwhile.
func (l *Ledger) List(s booking.Selection, most int, after string) (out []booking.Usage, next string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	book := l.book
	switch {
	case l.unused:
		return nil, "", nil
	case book == nil:
		return nil, "", ErrAway
	}
	out, next, err = book.List(time.Now(), s, most, after, func() { l.mu.Unlock(); l.mu.Lock() })
	if l.book != book {
		return nil, "", ErrAway
	}
	return out, next, err
}

// Parts returns, for up to most limits, the highest part of its quota that a client has used in the present period.
func (l *Ledger) Parts(most int) []booking.Part {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.book == nil {
		return nil
	}
	return l.book.Parts(time.Now(), most, func() { l.mu.Unlock(); l.mu.Lock() })
}

// Reached returns up to most thresholds that were reached and not delivered.
func (l *Ledger) Reached(most int) []booking.Reached {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.book == nil {
		return nil
	}
	return l.book.Reached(time.Now(), most)
}

// Delivered notes that a threshold was delivered.
func (l *Ledger) Delivered(r booking.Reached) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.book != nil {
		l.book.Delivered(r)
		notify(l.work)
	}
}

// Stats returns what has happened since the start.
func (l *Ledger) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.stats
	out.Counts = l.counts
	if l.book != nil {
		out.Counts = plus(l.counts, l.book.Counts())
		out.Records, out.Leads = l.book.Records(), true
	}
	return out
}

func plus(a, b booking.Counts) booking.Counts {
	return booking.Counts{Given: a.Given + b.Given, Repeated: a.Repeated + b.Repeated, Late: a.Late + b.Late,
		LateUse: a.LateUse + b.LateUse, Dropped: a.Dropped + b.Dropped, Expired: a.Expired + b.Expired,
		Full: a.Full + b.Full, Folded: a.Folded + b.Folded, Restored: a.Restored + b.Restored,
		Unreadable: a.Unreadable + b.Unreadable}
}
