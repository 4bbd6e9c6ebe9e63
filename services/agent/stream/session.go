package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
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

// run says hello, then reads here and writes in another goroutine, until either fails or ctx ends.
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
	next := func() time.Duration { return s.c.o.Every - time.Since(s.c.o.Start)%s.c.o.Every }
	tick := time.NewTimer(next())
	defer tick.Stop()
	reports := reporter{most: max(1, int(sayEvery/s.c.o.Every))}
	for {
		var m *controlv1.ConnectRequest
		select {
		case <-ctx.Done():
			return stream.CloseSend()
		case <-s.c.leaving:
			if err := s.writeOutgoing(stream); err != nil {
				return err
			}
			if err := stream.Send(reports.number(s.c.agent.Report())); err != nil {
				return err
			}
			return stream.CloseSend()
		case m = <-s.answers:
		case m = <-s.c.agent.Outgoing():
		case <-tick.C:
			tick.Reset(next())
			if m = reports.next(s.c.agent.Report()); m == nil {
				continue
			}
		}
		if err := stream.Send(m); err != nil {
			return err
		}
	}
}

// writeOutgoing sends what waits to be sent.
func (s *session) writeOutgoing(stream wire) error {
	for {
		select {
		case m := <-s.c.agent.Outgoing():
			if err := stream.Send(m); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// sayEvery is the interval of an agent's empty reports: the coordinator is to know that it lives.
const sayEvery = time.Second

// quietAfter is the number of successive empty reports before some are left out. The coordinator has forgotten by then
// what the agent's gateways asked for (64 reports, package allocation): if a report is missing, it assumes the mean of
// the agent's reports.
const quietAfter = 70

// reporter numbers reports, and leaves out empty ones.
type reporter struct {
	most   int // reports of which one is sent at least
	quiet  int // reports in a row that said nothing
	unsent int
	seq    uint64
	last   *controlv1.Report // sent
}

// next returns the message for a report, nil if it is left out.
func (r *reporter) next(m *controlv1.Report) *controlv1.ConnectRequest {
	r.unsent++
	if r.quiet++; !saysNothing(m, r.last) {
		r.quiet = 0
	}
	if r.quiet > quietAfter && r.unsent < r.most && m.GetState() == nil {
		return nil
	}
	return r.number(m)
}

// number returns the message for a report.
func (r *reporter) number(m *controlv1.Report) *controlv1.ConnectRequest {
	r.unsent, r.last = 0, m
	r.seq++
	m.Seq = r.seq
	return &controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Report{Report: m}}
}

// saysNothing reports whether nobody has asked for anything since the report before either, and nothing else is
// new but the agent's state. Where flows go on as reported, each report counts the time that they do.
func saysNothing(m, before *controlv1.Report) bool {
	return before != nil && !m.GetChanges() && !before.GetChanges() && len(m.GetFlows())+len(before.GetFlows()) == 0 &&
		len(m.GetPools())+len(m.GetLeases()) == 0 &&
		slices.EqualFunc(m.GetReplicas(), before.GetReplicas(), func(a, b *controlv1.Replica) bool {
			return proto.Equal(a, b)
		})
}
