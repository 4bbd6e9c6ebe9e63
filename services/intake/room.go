package intake

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Take takes room for more bytes of a call over HTTP, or returns the status of a call for which there is none.
func (i *Intake) Take(method string, bytes int64) error {
	if i.calls.TryAcquire(bytes) {
		return nil
	}
	err := status.Errorf(codes.ResourceExhausted,
		"%s: the server is busy, messages of other calls take all the room for them: try again", method)
	i.Refuse(byRoom, err)
	return err
}

// Give gives room back.
func (i *Intake) Give(bytes int64) { i.calls.Release(bytes) }

// takeRoom takes room for a message. A stream waits for it: if streams were refused, agents that report at
// the same time would connect again and again.
func (s *incoming) takeRoom(bytes int64) error {
	var err error
	if s.unary() {
		err = s.i.Take(s.method, bytes)
	} else if err = s.i.streams.Acquire(s.Context(), bytes); err != nil {
		err = status.FromContextError(err).Err()
	}
	if err == nil {
		s.held += bytes
	}
	return err
}

// giveBack gives back the room that the stream has taken.
func (s *incoming) giveBack() {
	if s.unary() {
		s.i.calls.Release(s.held)
	} else {
		s.i.streams.Release(s.held)
	}
	s.held = 0
}

// limit ends the call after readTime. Its result stops that, and sets the error of a call that was ended.
func (s *incoming) limit(from wire, err *error) (stop func()) {
	late := func() *status.Status {
		return status.Newf(codes.DeadlineExceeded, "%s: the message did not arrive within %v", s.method, readTime)
	}
	timer := time.AfterFunc(readTime, func() {
		s.i.Refuse(byTime, late().Err())
		_ = from.WriteStatus(late())
	})
	return func() {
		if !timer.Stop() {
			*err = late().Err()
		}
	}
}
