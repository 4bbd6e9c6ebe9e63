package stream

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/config"
	"github.com/titrate/titrate/services/coordinator/delivery"
)

// chunkBytes is about how large one Configuration message gets, well below gRPC's
// default limit of 4 MiB.
const chunkBytes = 512 << 10

// quietFor is how long a stream may be silent. Default 1.5 s: an agent takes a coordinator
// for dead after 5 s of silence. Shorter costs messages.
const quietFor = 1500 * time.Millisecond

// session is one agent's stream.
type session struct {
	server   *Server
	stream   grpc.BidiStreamingServer[controlv1.ConnectRequest, controlv1.ConnectResponse]
	agent    string                  // set before joined closes
	receiver *delivery.Receiver      // set before joined closes
	joined   chan struct{}           // closes when reports may be passed on
	end      context.CancelCauseFunc // ends the stream with a status
	news     chan struct{}           // one token: something is newer than what was sent

	sent  int64 // revision that the agent has been sent, -1 = none; the sender's
	floor int64 // revision that the agent came with: it is sent none below
	nonce uint64

	mu       sync.Mutex
	refusals map[uint64]int64 // revision of each nonce that is not answered yet
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
			s.end(endedByAgent(err))
			return
		}
		switch {
		case m.GetReport() != nil:
			if s.server.loop.Report(s.agent, m.GetReport()) {
				s.wake()
			}
		case m.GetAck() != nil:
			s.ack(m.GetAck())
		case m.GetHello() != nil:
			s.end(status.Error(codes.InvalidArgument, "a second Hello: open a new stream instead"))
			return
		}
	}
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
		case <-quiet.C:
			// An empty message shows that this coordinator is alive.
			err = s.stream.Send(&controlv1.ConnectResponse{})
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
	if s.server.configuration.Before(s.floor) {
		return false, nil
	}
	// The leases are read before the configuration: the configuration that is sent
	// is then never older than the one that the leases were computed from.
	leases := s.server.loop.Next(s.receiver)
	if change, lacks := s.server.configuration.Since(s.sent); lacks {
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

// sendLeases sends one message. What is the same for several agents is encoded already:
// its bytes follow those of the agent's own, and whoever reads them merges both.
func (s *session) sendLeases(m delivery.Message) error {
	r := &controlv1.ConnectResponse{}
	if m.Own != nil {
		r.Message = &controlv1.ConnectResponse_Leases{Leases: m.Own}
	}
	if m.Common != nil {
		if m.Common.Err != nil {
			return status.Errorf(codes.Internal, "leases cannot be encoded: %v", m.Common.Err)
		}
		r.ProtoReflect().SetUnknown(m.Common.Encoded)
	}
	return s.stream.Send(r)
}

// configure sends a change in chunks.
func (s *session) configure(change config.Change, in leadership) error {
	rest, deleted, full := change.Resources, change.Deleted, change.Full
	for {
		chunk, left := nextChunk(rest)
		last := len(left) == 0
		m := &controlv1.Configuration{
			Nonce: s.newNonce(change.Revision), Revision: change.Revision, Full: full, Last: last, Resources: chunk,
			Seed: in.seed, Epoch: in.epoch,
		}
		if last {
			m.Deleted, m.Unreadable = deleted, change.Unreadable
		}
		response := &controlv1.ConnectResponse{Message: &controlv1.ConnectResponse_Configuration{Configuration: m}}
		if err := s.stream.Send(response); err != nil {
			return err
		}
		if last {
			s.sent = change.Revision
			return nil
		}
		rest = left
	}
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

// nextChunk returns the resources of one chunk, and the rest.
func nextChunk(resources []*quotav1.Resource) (chunk, rest []*quotav1.Resource) {
	size := 0
	for i, r := range resources {
		if size += proto.Size(r); size > chunkBytes && i > 0 {
			return resources[:i], resources[i:]
		}
	}
	return resources, nil
}
