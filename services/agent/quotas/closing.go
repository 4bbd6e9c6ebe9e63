package quotas

import (
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/slots"
)

const (
	// maxClosing bounds the owners that have ended and wait for the coordinators to confirm it.
	maxClosing = 2 * MaxKeys
	// The end of an owner is repeated after sayFirst, then after twice that, and so on up to sayMost.
	sayFirst = time.Second
	sayMost  = 64 * time.Second
)

// closings are the owners' last messages, each until the coordinators have answered it.
type closings struct {
	list  map[uint64]*closing
	by    map[account]uint64
	due   slots.Agenda
	first uint64 // no lower number is in list
	last  uint64
}

type closing struct {
	Booking
	after time.Duration // of the next repeat
}

// account identifies an owner's account of a period.
type account struct {
	exchange.KeyName
	session uint64
	period  int64
}

func newClosings() closings {
	return closings{list: map[uint64]*closing{}, by: map[account]uint64{}}
}

// add adds one, and drops so many of the oldest that there is room.
func (c *closings) add(now time.Duration, b Booking) (dropped int) {
	for ; len(c.list) >= maxClosing; c.first++ {
		if c.list[c.first] != nil {
			c.remove(c.first)
			dropped++
		}
	}
	c.last++
	c.list[c.last] = &closing{b, sayFirst}
	c.by[account{b.KeyName, b.Session, b.Period}] = c.last
	c.due.Set(c.last, max(int64(now), 1))
	return dropped
}

func (c *closings) remove(number uint64) {
	b := &c.list[number].Booking
	delete(c.by, account{b.KeyName, b.Session, b.Period})
	delete(c.list, number)
	c.due.Set(number, 0)
}

// confirm notes that the coordinators know the end of an owner.
func (c *closings) confirm(a *Answer) {
	if number := c.by[account{a.KeyName, a.Session, a.Period}]; number != 0 {
		c.remove(number)
	}
}

// sayEnds sends the coordinators at most so many ends of owners that are due.
func (d *Desk) sayEnds(most int) {
	for range most {
		number, ok := d.closing.due.Take(int64(d.now))
		if !ok {
			return
		}
		c := d.closing.list[number]
		d.closing.due.Set(number, int64(d.now+c.after))
		c.after = min(2*c.after, sayMost)
		d.stats.Bookings++
		d.bookings = append(d.bookings, c.Booking)
	}
}
