package stream_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/store"
)

// bookings answers each request at once with an interval of 5; none if periods is nil.
type bookings struct {
	mu         sync.Mutex
	periods    *controlv1.Periods
	generation uint64
}

func (b *bookings) Take(m *controlv1.Bookings, answer func(*controlv1.Booking)) error {
	for _, r := range m.GetRequests() {
		if r.GetSession() == 0 {
			return errors.New("a booking request without a session")
		}
		answer(&controlv1.Booking{Session: r.GetSession(), Number: r.GetNumber(), To: 5})
	}
	return nil
}

func (b *bookings) Periods(has uint64) (*controlv1.Periods, uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if has == b.generation {
		return nil, has
	}
	return b.periods, b.generation
}

func (b *bookings) set(p *controlv1.Periods) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.periods = p
	b.generation++
}

// next returns the next message that is about bookings.
func next(t *testing.T, s agent) *controlv1.ConnectResponse {
	t.Helper()
	for {
		m, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.GetPeriods() != nil || m.GetBooked() != nil {
			return m
		}
	}
}

func TestBookingsAndPeriods(t *testing.T) {
	b := newBench(t)
	b.bookings.set(&controlv1.Periods{Periods: []*controlv1.Period{{Number: 7}}})
	b.configuration.Apply(store.Batch{Reset: true, Revision: 1})
	b.server.Open(3, 1, nil)
	s := b.dial("", 0)
	say(t, s, &controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Hello{
		Hello: &controlv1.Hello{Agent: "a", Books: true}}})
	if got := next(t, s).GetPeriods().GetPeriods(); len(got) != 1 || got[0].GetNumber() != 7 {
		t.Errorf("after Hello: %v", got)
	}
	b.bookings.set(&controlv1.Periods{Periods: []*controlv1.Period{{Number: 8}}})
	b.server.Announce()
	if got := next(t, s).GetPeriods().GetPeriods(); len(got) != 1 || got[0].GetNumber() != 8 {
		t.Errorf("after the change: %v", got)
	}
	var many []*controlv1.BookingRequest
	for n := range 4096 {
		many = append(many, &controlv1.BookingRequest{Session: 9, Number: uint64(n)})
	}
	say(t, s, &controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Bookings{
		Bookings: &controlv1.Bookings{Requests: many}}})
	for got := 0; got < len(many); {
		for _, one := range next(t, s).GetBooked().GetBookings() {
			if one.GetNumber() != uint64(got) || one.GetTo() != 5 {
				t.Fatalf("%d: %v", got, one)
			}
			got++
		}
	}
	say(t, s, &controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Bookings{
		Bookings: &controlv1.Bookings{Requests: []*controlv1.BookingRequest{{}}}}})
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if _, err := s.Recv(); err != nil {
			if status.Code(err) != codes.InvalidArgument {
				t.Error(err)
			}
			return
		}
	}
	t.Error("a message beyond its bounds does not end the stream")
}
