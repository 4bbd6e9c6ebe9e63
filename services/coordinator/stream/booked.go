package stream

import controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"

const (
	// maxBooked bounds the bookings in a message, as the wire says, and mostBooked the bookings that wait for a slow
	// agent. Of more the oldest are dropped, and the agent repeats its requests.
	maxBooked, mostBooked = 4096, 32768
)

// book queues an answer for the agent.
func (s *session) book(b *controlv1.Booking) {
	s.mu.Lock()
	if len(s.booked) >= mostBooked {
		s.booked = s.booked[1:]
		s.server.unsent.Add(1)
	}
	s.booked = append(s.booked, b)
	s.mu.Unlock()
	s.wake()
}

// Unsent counts the bookings that were dropped because their agent was slow to receive them.
func (s *Server) Unsent() uint64 { return s.unsent.Load() }

// sendBooked sends the periods if they have changed, and the bookings that wait.
func (s *session) sendBooked() (sent bool, err error) {
	if s.books {
		if m, generation := s.server.bookings.Periods(s.periods); m != nil {
			s.periods, sent = generation, true
			if err := s.transmit(&controlv1.ConnectResponse{
				Message: &controlv1.ConnectResponse_Periods{Periods: m}}); err != nil {
				return true, err
			}
		}
	}
	s.mu.Lock()
	waiting := s.booked
	s.booked = nil
	s.mu.Unlock()
	for len(waiting) > 0 {
		n := min(len(waiting), maxBooked)
		m := &controlv1.Booked{Bookings: waiting[:n]}
		waiting, sent = waiting[n:], true
		if err := s.transmit(&controlv1.ConnectResponse{
			Message: &controlv1.ConnectResponse_Booked{Booked: m}}); err != nil {
			return true, err
		}
	}
	return sent, nil
}
