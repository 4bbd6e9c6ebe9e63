// Package agentlink is the filter's end of the link to the local agent.
//
// # Model
//
// One goroutine dials the agent's Unix socket until the process ends, with a backoff of at most one second. On
// each connection the two sides first exchange a Hello, which fixes the version. Then one goroutine passes the
// agent's messages to the engine (configuration, shares, sums). Another sends the engine's messages. They are
// claims every 50 ms if there are any, a report every 250 ms, a heartbeat every second and whenever a
// configuration was accepted or refused. It sends at once the token questions for the owners of EXACT limits'
// keys. Claims have the changes since the last claims; a new connection sends all claims within 3.2 s. A
// report has the counts since the last report. The other messages have the latest state. So a lost connection
// loses at most the report that was being written.
//
// # Invariants
//
//   - No request ever waits for the link: this package never calls the functions that decide
//     requests, except requests that wait for an owner's answer. A peer that does not read
//     is disconnected after [link.DeadAfter].
//   - Without the agent the engine goes on with the last state, and with an estimate of
//     what the other replicas use: see estimate.go.
//   - A configuration, or a change of it, that the engine refuses leaves the old one in
//     force; the heartbeat reports to the agent which revision was refused, and why.
//   - What owners have granted is forgotten when the link has been down for [link.DeadAfter]:
//     the agent then counts it as spent.
//   - What has an Until lapses by this process's own count of the agent's time of day: see
//     lapse.go.
//   - Malformed bytes end the connection, nothing else.
package agentlink

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/proto/link"
)

const (
	claimsEvery = exchange.DefaultPeriod
	reportEvery = exchange.ReportEvery
	dialTimeout = time.Second
	writeAtOnce = 32 << 10 // bytes that are gathered before they are written
	minBackoff  = 20 * time.Millisecond
	maxBackoff  = time.Second
	// longestLimitText bounds each text about a limit that is left out, in bytes, so
	// that link.MaxRefused of them fit into a message.
	longestLimitText = 256
	// longestReason bounds the reason of a refusal, in bytes, so that it fits into a
	// heartbeat.
	longestReason = 1024
)

// Options are fixed for a client's life.
type Options struct {
	// Socket is the path of the agent's Unix socket.
	Socket string
	// Hello introduces this process; its Version is filled in.
	Hello link.Hello
	// Engine receives the agent's messages, and has the messages for the agent.
	Engine *limiter.Engine
	// Apply puts a configuration in force, Change puts a change in force. Default: the engine's methods.
	Apply  func(*config.Config) error
	Change func(*config.Delta) error
	// Counters, if set, are keys that the engine does not count.
	Counters Counters
	// Now is the engine's clock, in nanoseconds.
	Now func() int64
	// RecoverPanic is deferred by each goroutine.
	RecoverPanic func(where string)
	// Clients, if set, adds one of ClientParts parts of the clients that are limited the
	// most to a report. Each report has the next part.
	Clients     func(now int64, part int, r *exchange.Report)
	ClientParts int
	// Decisions, if set, are sent to an agent that takes them.
	Decisions Decisions
	// Asked, if set, rings when the engine has token questions for the owners of EXACT limits' keys
	// (limiter.Options.Ask). Answer receives the owners' answers.
	Asked  Bell
	Answer func(*exchange.TokenAnswers)
	// AnswerSlots receives the messages of owners of slots. Without it limits with a concurrency are left out: the
	// process does not see the ends of requests.
	AnswerSlots func(*exchange.SlotReplies)
	// AnswerQuotas is the same for owners of units of limits with a quota.
	AnswerQuotas func(*exchange.QuotaReplies)
	// Log receives messages for the operator: the link is up or down, a
	// configuration was refused.
	Log func(text string)
}

// Bell wakes the link's writer.
type Bell chan struct{}

// NewBell returns a bell that has not been rung.
func NewBell() Bell { return make(Bell, 1) }

// Ring wakes the writer, from any thread; while it is awake nothing happens.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// Counters are keys that are counted outside the engine, and shared in the same way as the engine's keys.
// SetSums may be called while another method runs.
type Counters interface {
	// Claims appends the claims that have changed since the last call.
	Claims(*exchange.Claims)
	// Repeat has the next Claims append everything.
	Repeat()
	// SetSums takes the other gateways' sums. It may remove sums of keys that the engine does not have; the
	// engine receives the sums after it.
	SetSums(*exchange.Sums)
}

// Decisions are decisions about single requests.
type Decisions interface {
	// Want notes whether the agent takes decisions.
	Want(is bool)
	// Take returns the decisions since the last Take, nil if there are none.
	Take(now int64) *exchange.Decisions
}

// Status is the state of the link. Safe for concurrent use.
type Status struct {
	Connected atomic.Bool
	// Revision of the configuration in force, 0 before the first.
	Revision atomic.Int64
	// LeftOut is the number of limits of the configuration in force that are not
	// enforced, see [Client.LeftOutLimits].
	LeftOut atomic.Int64
	// Sessions counts connections on which both Hellos were exchanged.
	Sessions atomic.Uint64
	// Malformed counts connections that ended by malformed bytes.
	Malformed atomic.Uint64
	// Refused counts refused configurations.
	Refused atomic.Uint64
}

// Client keeps the link up. Create it with New.
type Client struct {
	Status
	o       Options
	refusal atomic.Pointer[refusal]
	leftOut atomic.Pointer[link.Refused] // of the configuration in force
	claims  exchange.Claims
	report  exchange.Report

	ready     chan struct{} // closed when a configuration and sums have arrived
	readyOnce sync.Once
	inForce   inForce
	lapses    Bell // rings when the next lapse may be another one
	// Of receive. What clients spent before this process started is restored once,
	// and not after the first configuration.
	restored, configured, summed bool

	// The agent does, and this process has some; of connect's goroutine.
	takesTokens, takesSlots, takesQuotas bool

	finishing chan struct{} // closed by Finish
	finish    sync.Once
	finished  chan struct{} // closed when the last message was written

	others   estimator
	withheld exchange.Withheld // of claims that no agent has seen; guarded by others.mu
}

type refusal struct {
	revision int64
	reason   string
}

// Refusal returns the revision of the last refused configuration, and why it was
// refused; 0 if there is none, or another one is in force since.
func (c *Client) Refusal() (revision int64, reason string) {
	if r := c.refusal.Load(); r != nil {
		return r.revision, r.reason
	}
	return 0, ""
}

// New returns a client that has not dialled yet.
func New(o Options) *Client {
	o.Hello.Version = link.Version
	if o.Apply == nil {
		o.Apply, o.Change = o.Engine.Apply, o.Engine.Change
	}
	return &Client{
		o: o, ready: make(chan struct{}), finishing: make(chan struct{}), finished: make(chan struct{}),
		lapses: NewBell(),
	}
}

// Run keeps the link up until the context ends.
func (c *Client) Run(ctx context.Context) {
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { c.estimateWithoutAgent(ctx) })
	others.Go(func() { c.lapseWhenDue(ctx) })
	backoff, quiet := minBackoff, false
	for ctx.Err() == nil {
		greeted, err := c.connect(ctx)
		c.Connected.Store(false)
		c.forgetUnused()
		if ctx.Err() != nil {
			return
		}
		if greeted || !quiet {
			const text = "titrate: no link to the agent at %s, using the last state: %v"
			c.o.Log(fmt.Sprintf(text, c.o.Socket, err))
		}
		if quiet = true; greeted {
			backoff = minBackoff
		}
		select {
		case <-ctx.Done():
		case <-c.finishing: // there is no agent to send the last state to
			return
		case <-time.After(backoff/2 + rand.N(backoff/2)):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// forgetUnused has the engine use no unused capacity of pools until an agent sends shares again. A panic
// ends that only.
func (c *Client) forgetUnused() {
	defer c.o.RecoverPanic("the unused capacity of pools")
	c.o.Engine.ForgetUnused()
}

// Ready is closed once the first configuration is in force and the agent has sent its state of clients and of
// other replicas.
func (c *Client) Ready() <-chan struct{} { return c.ready }

// restore restores what clients have spent at the process before this one. Messages after the first
// configuration on a new link have this process's own state, so they are ignored.
func (c *Client) restore(m *exchange.Spent) {
	if c.restored {
		return
	}
	c.restored = true
	now := c.o.Now()
	for _, k := range m.Keys {
		c.o.Engine.RestoreSpent(now, k)
	}
	c.o.Log(fmt.Sprintf("titrate: the agent has the spent tokens of %d keys", len(m.Keys)))
}

// takeClaims takes the changed claims from the engine and from Counters.
func (c *Client) takeClaims(now int64, into *exchange.Claims) {
	into.Reset()
	c.o.Engine.Claims(now, into)
	if c.o.Counters != nil {
		c.o.Counters.Claims(into)
	}
}

// repeatClaims has everything that is claimed announced once more.
func (c *Client) repeatClaims() {
	c.o.Engine.RepeatClaims()
	if c.o.Counters != nil {
		c.o.Counters.Repeat()
	}
}

// answered passes on what an owner of keys says.
func (c *Client) answered(m link.Message) {
	switch m := m.(type) {
	case *exchange.TokenAnswers:
		if c.o.Answer != nil {
			c.o.Answer(m)
		}
	case *exchange.SlotReplies:
		if c.o.AnswerSlots != nil {
			c.o.AnswerSlots(m)
		}
	case *exchange.QuotaReplies:
		if c.o.AnswerQuotas != nil {
			c.o.AnswerQuotas(m)
		}
	}
}

// untilNext returns the time to the next multiple of a period of the engine's clock. The enforcer ticks at these
// times, too: the process is woken once for both.
func (c *Client) untilNext(period time.Duration) time.Duration {
	return period - time.Duration(c.o.Now())%period
}

func (c *Client) heartbeat(sequence uint64) *link.Heartbeat {
	h := &link.Heartbeat{Sequence: sequence, Revision: c.Revision.Load(), Features: exchange.FeatureOverrides}
	if r := c.refusal.Load(); r != nil {
		h.Refused, h.Reason = r.revision, r.reason
	}
	if c.o.AnswerSlots != nil {
		h.Features += "," + exchange.FeatureConcurrency
	}
	if c.o.AnswerQuotas != nil {
		h.Features += "," + exchange.FeatureQuota
	}
	return h
}

// deadline bounds each write of a message by link.DeadAfter.
type deadline struct{ net.Conn }

func (d deadline) Write(b []byte) (int, error) {
	if err := d.SetWriteDeadline(time.Now().Add(link.DeadAfter)); err != nil {
		return 0, err
	}
	return d.Conn.Write(b)
}
