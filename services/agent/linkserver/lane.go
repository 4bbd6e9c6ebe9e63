package linkserver

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
)

const (
	// claimsAtOnce is the number of claims that the handler takes at once: more take others' time, tokens' above all.
	claimsAtOnce = 512
	// longWaiting bounds the messages that wait behind long claims.
	longWaiting = 8
)

// lane gives a connection's messages to the handler in their order, except questions, for which a request waits. They
// do not wait until thousands of claims are taken in: a filter whose agent restarts lists all of them.
type lane struct {
	s       *Server
	c       *Conn
	pace    *pace
	long    chan link.Message
	pending atomic.Int32 // in long, or being taken in
	taking  sync.WaitGroup
}

func (s *Server) newLane(ctx context.Context, c *Conn) *lane {
	l := &lane{s: s, c: c, pace: newPace(), long: make(chan link.Message, longWaiting)}
	l.taking.Go(func() {
		for m := range l.long {
			if ctx.Err() == nil {
				_ = l.handle(ctx, m) // an error is the context's
			}
			l.pending.Add(-1)
		}
	})
	return l
}

// close waits until all messages are with the handler, or ctx is over.
func (l *lane) close() {
	close(l.long)
	l.taking.Wait()
}

// take gives a message to the handler, now or after those before it.
func (l *lane) take(ctx context.Context, m link.Message) error {
	switch m := m.(type) {
	case *exchange.TokenRequests, *exchange.SlotAsks, *exchange.QuotaAsks:
		return l.handle(ctx, m)
	case *exchange.Claims:
		if len(m.Flows)+len(m.Keys)+len(m.Withdrawn) > claimsAtOnce {
			return l.put(ctx, m)
		}
	}
	if l.pending.Load() > 0 {
		return l.put(ctx, m)
	}
	return l.handle(ctx, m)
}

func (l *lane) put(ctx context.Context, m link.Message) error {
	l.pending.Add(1)
	select {
	case l.long <- m:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// handle gives a message to the handler, in parts if it is long, and rests if the connection takes too much time.
func (l *lane) handle(ctx context.Context, m link.Message) error {
	parts := []link.Message{m}
	if claims, is := m.(*exchange.Claims); is {
		parts = parts[:0]
		for _, part := range claims.Parts(claimsAtOnce) {
			parts = append(parts, part)
		}
	}
	var err error
	for i := 0; i < len(parts) && err == nil; i++ {
		began := time.Now()
		l.s.h.Received(l.c, parts[i])
		err = l.pace.worked(ctx, time.Since(began))
	}
	return err
}
