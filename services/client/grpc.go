package client

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Unary returns an interceptor for unary calls, one window per target. It sends a call again that was refused with
// RESOURCE_EXHAUSTED, unless the gateway's pushback forbids it.
func (c *Client) Unary() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption) error {
		w := c.window(cc.Target())
		for attempt := 0; ; attempt++ {
			if err := w.acquire(ctx, cc.Target()); err != nil {
				return refusal(err)
			}
			var header, trailer metadata.MD
			sent := time.Now()
			err := invoke(ctx, method, req, reply, cc, append(opts[:len(opts):len(opts)], grpc.Header(&header),
				grpc.Trailer(&trailer))...)
			a, never := signsOf(err, header, trailer)
			w.release(sent, a)
			if !a.refused || never || attempt >= c.o.Retries {
				return err
			}
		}
	}
}

// Stream returns an interceptor for streams. A stream holds its place in the window until its first message has come,
// or its end: what follows is not the gateway's to decide. Streams are not sent again.
func (c *Client) Stream() grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer,
		opts ...grpc.CallOption) (grpc.ClientStream, error) {
		w := c.window(cc.Target())
		if err := w.acquire(ctx, cc.Target()); err != nil {
			return nil, refusal(err)
		}
		sent := time.Now()
		s, err := open(ctx, desc, cc, method, opts...)
		if err != nil {
			a, _ := signsOf(err, nil, nil)
			w.release(sent, a)
			return nil, err
		}
		out := &stream{ClientStream: s, window: w, sent: sent}
		context.AfterFunc(s.Context(), func() { out.begun(answer{failed: true}) })
		return out, nil
	}
}

// stream releases its place in the window once.
type stream struct {
	grpc.ClientStream
	window *window
	sent   time.Time
	once   sync.Once
}

func (s *stream) begun(a answer) { s.once.Do(func() { s.window.release(s.sent, a) }) }

// RecvMsg notes the first message, or how the stream ended without one.
func (s *stream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	header, _ := s.Header() // is there: a message or the end has come
	var trailer metadata.MD
	end := err
	if err != nil {
		trailer = s.Trailer()
	}
	if errors.Is(err, io.EOF) {
		end = nil
	}
	a, _ := signsOf(end, header, trailer)
	s.begun(a)
	return err
}

// signsOf takes the signs out of a call's end. never: the call must not be sent again.
func signsOf(err error, header, trailer metadata.MD) (a answer, never bool) {
	pause, never := pushback(append(trailer.Get("grpc-retry-pushback-ms"), header.Get("grpc-retry-pushback-ms")...))
	code := status.Code(err)
	a = answer{
		marked:  len(header.Get(markField)) > 0 || len(trailer.Get(markField)) > 0,
		refused: code == codes.ResourceExhausted,
		failed:  code == codes.Canceled || code == codes.DeadlineExceeded || code == codes.Unavailable,
	}
	if a.refused {
		a.pause = pause
	}
	return a, never
}

// refusal turns an error of the window into a call's.
func refusal(err error) error {
	if t := (*ThrottledError)(nil); errors.As(err, &t) {
		return status.Error(codes.ResourceExhausted, t.Error())
	}
	return status.FromContextError(err).Err()
}
