package agentlink

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
)

// connect runs one connection until it ends. greeted: both Hellos were exchanged.
func (c *Client) connect(ctx context.Context) (greeted bool, err error) {
	defer c.o.RecoverPanic("the link")
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "unix", c.o.Socket)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	out := bufio.NewWriterSize(deadline{conn}, writeAtOnce)
	w := link.NewWriter(out)
	r := link.NewReader(link.Alive(conn, link.DeadAfter))
	if err = c.exchangeHellos(r, w, out); err != nil {
		return false, c.countMalformed(err)
	}
	c.Sessions.Add(1)
	c.o.Hello.Again = true
	c.Connected.Store(true)
	c.o.Log("titrate: linked to the agent at " + c.o.Socket)
	if c.takesTokens && c.o.Answer != nil {
		c.o.Engine.LinkTokens(c.o.Now(), true)
		defer func() { c.o.Engine.LinkTokens(c.o.Now(), false) }()
	}
	if c.takesSlots {
		c.o.Engine.LinkSlots(true)
		defer c.o.Engine.LinkSlots(false)
	}
	if c.takesQuotas {
		c.o.Engine.LinkQuotas(true)
		defer c.o.Engine.LinkQuotas(false)
	}
	ended := make(chan struct{})
	writer := make(chan struct{})
	var failed error // of the writer
	go func() {
		defer close(writer)
		defer conn.Close() // wakes the reader
		defer c.o.RecoverPanic("the link's writer")
		failed = c.send(w, out, ended)
	}()
	defer func() { // also after a panic: the next session has its own writer
		close(ended)
		conn.Close()
		<-writer
		if failed != nil && errors.Is(err, net.ErrClosed) { // by the writer
			err = fmt.Errorf("agentlink: send to the agent: %w", failed)
		}
	}()
	greeted, err = true, errPanic
	err = c.countMalformed(c.receive(r))
	return greeted, err
}

// errPanic is the error of a session that a panic ended.
var errPanic = errors.New("a panic was recovered")

// countMalformed counts a connection that ended by malformed bytes.
func (c *Client) countMalformed(err error) error {
	var format *link.FormatError
	if errors.As(err, &format) {
		c.Malformed.Add(1)
	}
	return err
}

func (c *Client) exchangeHellos(r *link.Reader, w *link.Writer, out *bufio.Writer) error {
	if err := errors.Join(w.Write(&c.o.Hello), out.Flush()); err != nil {
		return fmt.Errorf("agentlink: send the Hello: %w", err)
	}
	m, err := r.Next()
	if err != nil {
		return fmt.Errorf("agentlink: read the agent's Hello: %w", err)
	}
	hello, ok := m.(*link.Hello)
	if !ok {
		return fmt.Errorf("agentlink: the agent began with %T, a Hello is needed", m)
	}
	version, err := link.Negotiate(hello.Version)
	if err != nil {
		return err
	}
	w.SetVersion(version)
	c.setClock(hello.Clock)
	c.takesTokens, c.takesSlots = hello.Tokens, hello.Slots && c.o.AnswerSlots != nil
	c.takesQuotas = hello.Quotas && c.o.AnswerQuotas != nil
	if c.o.Decisions != nil {
		c.o.Decisions.Want(hello.Decisions)
	}
	return nil
}

// receive passes the agent's messages to the engine until the link ends.
func (c *Client) receive(r *link.Reader) error {
	for {
		m, err := r.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return errors.New("the agent closed the link")
			}
			return err
		}
		switch m := m.(type) {
		case *config.Config:
			c.apply(m)
		case *config.Delta:
			c.change(m)
		case *exchange.Shares:
			c.o.Engine.SetShares(m) // which refuses an older epoch
		case *exchange.Sums:
			now := c.o.Now()
			c.others.set(now, m)
			if c.o.Counters != nil {
				c.o.Counters.SetSums(m)
			}
			c.o.Engine.SetSums(now, m)
			c.summed = c.summed || !m.More
			c.checkReady()
		case *exchange.Spent:
			c.restore(m)
		case *exchange.TokenAnswers, *exchange.SlotReplies, *exchange.QuotaReplies:
			c.answered(m)
		case *link.Heartbeat:
			c.setClock(m.Clock)
		case *link.Hello:
		default:
			return fmt.Errorf("agentlink: an agent does not send %T", m)
		}
	}
}

func (c *Client) checkReady() {
	if c.configured && c.summed {
		c.readyOnce.Do(func() { close(c.ready) })
	}
}
