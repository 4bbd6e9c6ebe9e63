package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"google.golang.org/grpc"
)

// session is one stream.
type session struct {
	c       *Client
	address string
	alive   func() // something was received
	answers chan *controlv1.ConnectRequest
	gotAny  bool
}

// wire is the client's end of the generated stream.
type wire = grpc.BidiStreamingClient[controlv1.ConnectRequest, controlv1.ConnectResponse]

// run says hello, then reads here and writes in a goroutine of its own, until
// either fails or ctx ends.
func (s *session) run(ctx context.Context, client controlv1.ControlServiceClient) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.Connect(ctx)
	if err != nil {
		return err
	}
	hello := &controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Hello{Hello: s.c.agent.Hello()}}
	if err := stream.Send(hello); err != nil {
		return broken(stream, err)
	}
	var writer sync.WaitGroup
	defer writer.Wait()
	defer cancel()
	writer.Go(func() {
		if s.write(ctx, stream) != nil {
			cancel() // the reader's error says why
		}
	})
	return s.read(ctx, stream)
}

// broken finds the reason of a failed Send, which only Recv returns.
func broken(stream wire, err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	if _, why := stream.Recv(); why != nil {
		return why
	}
	return err
}

func (s *session) read(ctx context.Context, stream wire) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("coordinator %s closed the stream", s.address)
		}
		if err != nil {
			return err
		}
		s.alive()
		s.gotAny = true
		s.c.received(s.address)
		answer, err := s.c.agent.Receive(m)
		if err != nil {
			return err
		}
		if answer == nil {
			continue
		}
		select {
		case s.answers <- answer:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *session) write(ctx context.Context, stream wire) error {
	tick := time.NewTicker(s.c.o.Every)
	defer tick.Stop()
	report := func(seq uint64) *controlv1.ConnectRequest {
		r := s.c.agent.Report()
		r.Seq = seq
		return &controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Report{Report: r}}
	}
	for seq := uint64(1); ; {
		var m *controlv1.ConnectRequest
		select {
		case <-ctx.Done():
			return stream.CloseSend()
		case <-s.c.leaving:
			if err := stream.Send(report(seq)); err != nil {
				return err
			}
			return stream.CloseSend()
		case m = <-s.answers:
		case <-tick.C:
			m = report(seq)
			seq++
		}
		if err := stream.Send(m); err != nil {
			return err
		}
	}
}
