package stream

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/config"
	"github.com/titrate/titrate/services/coordinator/delivery"
	"github.com/titrate/titrate/services/store/resource"
)

// quietFor is the longest time without a message on a stream. Default 1.5 s: an agent takes a coordinator for dead
// after 5 s of silence. Shorter costs messages.
const quietFor = 1500 * time.Millisecond

// session is one agent's stream.
type session struct {
	server   *Server
	stream   grpc.BidiStreamingServer[controlv1.ConnectRequest, controlv1.ConnectResponse]
	agent    string                  // set before joined closes
	receiver *delivery.Receiver      // set before joined closes
	joined   chan struct{}           // closes when reports may be passed on
	end      context.CancelCauseFunc // ends the stream with a status
	news     chan struct{}           // one token: something is newer than the last message

	sent  int64           // revision that the agent has been sent, -1 = none; the sender's
	floor int64           // revision that the agent came with: it is sent none below
	holds resource.Digest // of the configuration that the agent came with, 0 = none

	shares       bool                    // the agent knows Coordinators; set before addSession
	coordinators *controlv1.Coordinators // sent last; the sender's

	process uint64       // of the agent, 0 = not said; set before addSession
	address string       // the agent's, as seen here
	heard   atomic.Int64 // time of the last message: nanoseconds since the server began

	answers   bool // the agent answers questions; set before addSession
	questions chan *controlv1.Question

	books   bool   // the agent understands Periods and Booked; set before addSession
	periods uint64 // generation of the Periods that were sent last; the sender's

	nonce uint64

	mu       sync.Mutex
	refusals map[uint64]int64 // revision of each nonce that is not answered yet
	booked   []*controlv1.Booking
}

// receive passes on what the agent says, until the stream ends.
func (s *session) receive(hello chan<- *controlv1.Hello) {
	first, err := s.stream.Recv()
	if err == nil && first.GetHello().GetAgent() == "" {
		err = status.Error(codes.InvalidArgument, "the first message must be a Hello with the agent's name")
	}
	if err != nil {
		s.end(endedByAgent(err))
		return
	}
	hello <- first.GetHello()
	select {
	case <-s.joined:
	case <-s.stream.Context().Done():
		return
	}
	for {
		m, err := s.stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) && s.server.has(s) {
				s.server.loop.Left(s.agent)
			}
			s.end(endedByAgent(err))
			return
		}
		s.heard.Store(int64(s.server.now()))
		if err := s.take(m); err != nil {
			s.end(status.Error(codes.InvalidArgument, err.Error()))
			return
		}
	}
}

// take takes a message after the first. An error ends the stream.
func (s *session) take(m *controlv1.ConnectRequest) error {
	switch {
	case m.GetReport() != nil:
		if s.server.loop.Report(s.agent, m.GetReport()) {
			s.wake()
		}
	case m.GetAck() != nil:
		s.ack(m.GetAck())
	case m.GetAnswer() != nil:
		s.server.questions.answered(s.agent, m.GetAnswer())
	case m.GetBookings() != nil:
		return s.server.bookings.Take(m.GetBookings(), s.book)
	case m.GetHello() != nil:
		return errors.New("a second Hello: open a new stream instead")
	}
	return nil
}

// endedByAgent is the status after the agent's side has ended.
func endedByAgent(err error) error {
	if errors.Is(err, io.EOF) {
		return status.Error(codes.Canceled, "the agent has closed its side")
	}
	return err
}

// ack takes the answer to one chunk, or word that leases were missed.
func (s *session) ack(a *controlv1.Ack) {
	if a.GetNonce() == 0 {
		s.server.loop.Again(s.receiver, a.GetError())
		s.wake()
		return
	}
	s.mu.Lock()
	revision, asked := s.refusals[a.GetNonce()]
	delete(s.refusals, a.GetNonce())
	s.mu.Unlock()
	if asked && a.GetError() != "" {
		s.server.loop.Nack(s.agent, revision, a.GetError())
	}
}

// wake makes the sender send what is new; it never blocks.
func (s *session) wake() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// send sends what is newest whenever there is news, until the stream ends.
func (s *session) send(ctx context.Context) error {
	quiet := time.NewTicker(quietFor)
	defer quiet.Stop()
	for {
		sent, err := true, error(nil)
		select {
		case <-ctx.Done():
			return endStatus(ctx)
		case <-s.news:
			sent, err = s.sendNews()
		case q := <-s.questions:
			err = s.transmit(&controlv1.ConnectResponse{
				Message: &controlv1.ConnectResponse_Question{Question: q}})
		case <-quiet.C:
			// An empty message shows that this coordinator is alive.
			err = s.transmit(&controlv1.ConnectResponse{})
		}
		if err != nil {
			return err
		}
		if sent {
			quiet.Reset(quietFor)
		}
	}
}

// sendNews sends what the agent lacks, if it lacks anything.
func (s *session) sendNews() (sent bool, err error) {
	if sent, err = s.sendCoordinators(); err != nil {
		return true, err
	}
	booked, err := s.sendBooked()
	if err != nil {
		return true, err
	}
	if sent = sent || booked; s.server.configuration.Before(s.floor) {
		return sent, nil
	}
	// The leases are read before the configuration: the configuration that is sent is then never older than the
	// configuration of the leases.
	leases := s.server.loop.Next(s.receiver)
	if change, lacks := s.lacks(); lacks {
		if err := s.configure(change, s.server.leads()); err != nil {
			return true, err
		}
		sent = true
	}
	for _, m := range leases {
		if err := s.sendLeases(m); err != nil {
			return true, err
		}
	}
	return sent || len(leases) > 0, nil
}

// sendCoordinators says who leads what, if the agent does not know it.
func (s *session) sendCoordinators() (sent bool, err error) {
	c := s.server.coordinators()
	if c == nil || c == s.coordinators || !s.shares {
		return false, nil
	}
	s.coordinators = c
	return true, s.transmit(&controlv1.ConnectResponse{
		Message: &controlv1.ConnectResponse_Coordinators{Coordinators: c}})
}

// lacks returns the part of the configuration that the agent lacks. The first time that is something, if only the word
// that the agent holds the present one.
func (s *session) lacks() (change *config.Change, lacks bool) {
	if s.sent >= 0 {
		return s.server.configuration.Since(s.sent)
	}
	change, lacks = s.server.configuration.Resume(s.holds)
	if lacks && !change.Full {
		s.server.resumed.Add(1)
	}
	return change, lacks
}

// sendLeases sends one message. What is the same for several agents is encoded already.
func (s *session) sendLeases(m delivery.Message) error {
	r := &controlv1.ConnectResponse{}
	if m.Own != nil {
		r.Message = &controlv1.ConnectResponse_Leases{Leases: m.Own}
	}
	if m.Common == nil {
		return s.transmit(r)
	}
	if m.Common.Err != nil {
		return status.Errorf(codes.Internal, "leases cannot be encoded: %v", m.Common.Err)
	}
	return s.sendWith(r, m.Common.Encoded)
}

// configure sends a change in chunks. What is the same for all agents is encoded already.
func (s *session) configure(change *config.Change, in leadership) error {
	if change.Full {
		s.server.whole.Add(1)
	}
	parts, err := change.Parts()
	if err != nil {
		return status.Errorf(codes.Internal, "configuration %d cannot be encoded: %v", change.Revision, err)
	}
	for _, part := range parts {
		own := &controlv1.Configuration{Nonce: s.newNonce(change.Revision), Seed: in.seed, Epoch: in.epoch}
		m := &controlv1.ConnectResponse{Message: &controlv1.ConnectResponse_Configuration{Configuration: own}}
		if err := s.sendWith(m, part); err != nil {
			return err
		}
	}
	s.sent = change.Revision
	return nil
}

// transmit sends a message with the time of day. All messages go this way.
func (s *session) transmit(m *controlv1.ConnectResponse) error {
	m.Sent = time.Now().UnixMilli()
	return s.stream.Send(m)
}

// sendWith sends a message with an encoded one of the same kind: the bytes of that follow those of
// the first, and their reader merges both.
func (s *session) sendWith(m *controlv1.ConnectResponse, encoded []byte) error {
	m.ProtoReflect().SetUnknown(encoded)
	return s.transmit(m)
}

// newNonce makes the nonce of a chunk.
func (s *session) newNonce(revision int64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nonce++
	s.refusals[s.nonce] = revision
	if len(s.refusals) > maxUnanswered {
		delete(s.refusals, s.nonce-maxUnanswered)
	}
	return s.nonce
}

// maxUnanswered bounds what is remembered of an agent that never answers.
const maxUnanswered = 1024
