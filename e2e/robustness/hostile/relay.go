package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/liar"
	"github.com/titrate/titrate/proto/link"
)

// relay passes messages between a filter and an agent. It falsifies those of the filter, sends some of them again, and
// adds others. The agent may close the link at any time: the filter then connects again.
type relay struct {
	socket string // of the agent
	random *rand.Rand
	fields []string
	speaks liar.Gateway
	sent   []link.Message // the last ones
}

func newRelay(socket string, seed uint64) *relay {
	return &relay{socket: socket, random: rand.New(rand.NewPCG(seed, 4)), fields: liar.GatewayFields()}
}

// serve relays the links of the filter, one after the other.
func (r *relay) serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		fmt.Fprintln(os.Stderr, "hostile-gateway: the link ended:", r.relay(conn))
	}
}

// relay relays one link until it ends.
func (r *relay) relay(filter net.Conn) error {
	defer filter.Close()
	agent, err := net.Dial("unix", r.socket)
	if err != nil {
		return err
	}
	defer agent.Close()
	go func() {
		defer filter.Close() // ends the reader
		_, _ = io.Copy(filter, agent)
	}()
	in, out := link.NewAgentReader(filter), link.NewWriter(agent)
	for {
		m, err := in.Next()
		if err != nil {
			return err
		}
		for _, m := range r.falsify(m) {
			if !readable(m) && r.random.IntN(malformedOf) > 0 {
				continue
			}
			// What cannot be encoded is not sent.
			if err := out.Write(m); errors.As(err, new(net.Error)) || errors.Is(err, io.ErrClosedPipe) {
				return err
			}
		}
		if hello, is := m.(*link.Hello); is {
			out.SetVersion(hello.Version)
		}
	}
}

// malformedOf: of so many messages that end the link one is sent. An agent lets a process in twice a second.
const malformedOf = 20

// readable reports whether an agent reads a message; otherwise it ends the link.
func readable(m link.Message) bool {
	var b bytes.Buffer
	w := link.NewWriter(&b)
	messages := []link.Message{&link.Hello{Version: link.Version, Replica: "any", Generation: 1, Weight: 1}, m}
	if _, is := m.(*link.Hello); is {
		messages = messages[1:]
	}
	in := link.NewAgentReader(&b)
	for _, m := range messages {
		if w.Write(m) != nil {
			return false
		}
		if _, err := in.Next(); err != nil {
			return false
		}
	}
	return true
}

// again is the number of sent messages that may be sent again.
const again = 256

// falsify returns what to send in the place of a message.
func (r *relay) falsify(m link.Message) (out []link.Message) {
	if hello, is := m.(*link.Hello); is {
		hello.Weight = []float64{1, -1, 0, 1e6, 1e12}[r.random.IntN(5)]
		return []link.Message{m}
	}
	r.speaks.Hear(m)
	if r.random.IntN(3) > 0 {
		r.speaks.TellSome(m, r.fields, r.random)
	}
	out = append(out, m)
	if len(r.sent) > 0 && r.random.IntN(4) == 0 {
		out = append(out, r.sent[r.random.IntN(len(r.sent))])
	}
	r.sent = append(r.sent, m)
	r.sent = r.sent[max(0, len(r.sent)-again):]
	if _, is := m.(*link.Heartbeat); is { // once a second
		out = append(append(out, r.invented()...), r.flood()...)
	}
	return out
}

// invented are messages with a false value in each field, which the filter has no reason to send.
func (r *relay) invented() (out []link.Message) {
	for _, path := range r.fields {
		m := liar.NewMessage(path)
		r.speaks.Tell(m, path, r.random.IntN(1000))
		out = append(out, m)
	}
	return out
}

// floodKeys is the number of keys that a flood invents. An agent has room for a hundred times as many in a fault.
const floodKeys = 500

// flood are more messages at once than a filter sends, about keys, flows and requests that nobody has.
func (r *relay) flood() (out []link.Message) {
	claims, spent := &exchange.Claims{}, &exchange.Spent{}
	report := &exchange.Report{Interval: exchange.ReportEvery, Parts: 1}
	for i := range floodKeys {
		key := r.random.Uint64()
		claims.Keys = append(claims.Keys, exchange.KeyClaim{Key: key, Claim: 1e12, Unsaturated: 1e12, Admitted: 1e15,
			Spent: 1e12, Own: 1e12})
		spent.Keys = append(spent.Keys, exchange.KeySpent{Key: key, Ahead: time.Duration(r.random.Int64())})
		report.Flows = append(report.Flows, exchange.FlowReport{Tenant: fmt.Sprint("nobody-", i), Pool: "none\xff",
			Demand: 1e12, Counts: exchange.Counts{Admitted: math.MaxUint64}})
	}
	decision := exchange.Decision{Request: strings.Repeat("r", 10_000), Reason: "\xff\xfe"}
	for range 20 {
		out = append(out, &exchange.Decisions{List: []exchange.Decision{decision}}, &link.Heartbeat{Reason: "\xff"})
	}
	return append(out, claims, spent, report)
}

// Times of knock.
const (
	knockEvery = time.Second
	// knockWithin is the longest time in which an agent closes such a link, also on a busy machine.
	knockWithin = 20 * time.Second
)

// knock begins links that an agent must refuse, one after the other, until the context ends. It returns an error if
// the agent answers one, or keeps it.
func knock(ctx context.Context, socket string) error {
	hello := func(replica string, generation uint64) []byte {
		return frame(&link.Hello{Version: link.Version, Replica: replica, Generation: generation})
	}
	begins := []struct {
		what string
		sent []byte
	}{
		{"a name that is too long", hello(strings.Repeat("n", 257), 1)},
		{"a name that is not printable", hello("a\x00b", 1)},
		{"a generation that is too late", hello("later", math.MaxUint64)},
		{"no Hello", frame(&link.Heartbeat{})},
		{"no message", []byte(strings.Repeat("\xff", 64))},
	}
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(knockEvery):
		}
		b := begins[n%len(begins)]
		if err := refused(socket, b.sent); err != nil && ctx.Err() == nil {
			return fmt.Errorf("hostile-gateway: a link that begins with %s: %w", b.what, err)
		}
	}
}

// frame returns a message as a link has it.
func frame(m link.Message) []byte {
	var b bytes.Buffer
	_ = link.NewWriter(&b).Write(m) // a buffer takes all
	return b.Bytes()
}

// refused returns an error unless an agent closes a link that begins so, without an answer.
func refused(socket string, begin []byte) error {
	conn, err := net.DialTimeout("unix", socket, knockWithin)
	if err != nil {
		return nil // there is no agent now
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(knockWithin))
	_, _ = conn.Write(begin)
	switch answer, err := io.Copy(io.Discard, conn); {
	case answer > 0:
		return fmt.Errorf("the agent answers with %d bytes", answer)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the agent keeps the link: %w", err)
	}
	return nil
}
