package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	firstPause = 50 * time.Millisecond
	maxPause   = time.Second
	// maxNamePause is the longest pause while another agent has the name: an agent that takes over the name
	// of a crashed agent does so within it.
	maxNamePause = 15 * time.Second
	// connectTimeout bounds one attempt to reach an address.
	connectTimeout = 2 * time.Second
	// maxMessage bounds one received message; configurations are chunked.
	maxMessage = 16 << 20
)

// Agent is the agent's side of the stream. Calls never overlap, but for Report, which may overlap Receive.
type Agent interface {
	// Hello opens a stream.
	Hello() *controlv1.Hello
	// Report returns the report since the last call; seq is set here.
	Report() *controlv1.Report
	// Receive takes a message and returns what to answer, nil for nothing. An error ends the stream.
	Receive(*controlv1.ConnectResponse) (*controlv1.ConnectRequest, error)
	// Outgoing has what is to be sent besides.
	Outgoing() <-chan *controlv1.ConnectRequest
}

// Options of a Client.
type Options struct {
	Addresses []string          // of coordinators, host:port
	Dial      []grpc.DialOption // credentials at least
	Every     time.Duration     // between two reports; default 250 ms
	Silence   time.Duration     // of a dead stream; default 5 s
	Start     time.Time         // reports are made at multiples of Every since then; default now
	Log       *slog.Logger
}

// Client keeps the stream. Safe for concurrent use.
type Client struct {
	o     Options
	agent Agent

	mu      sync.Mutex
	blocked bool
	cancel  context.CancelCauseFunc // of the running attempt
	state   Status

	streams  atomic.Uint64
	failures atomic.Uint64

	leave   sync.Once
	leaving chan struct{} // closed by Leave

	before func(context.Context) bool // waits before an attempt, false: end; nil: never
	over   func()                     // is called at the end of an attempt; may be nil
	stays  bool                       // at its address, under each leader

	// lines bounds what is logged at a level that is on: two agents of one name end each other's streams without end.
	lines *rate.Limiter
	inUse rate.Sometimes // bounds the lines about the name that another agent has
}

// Status is the state of the stream.
type Status struct {
	Connected bool   // something was received on it
	Address   string // connected to, or tried last
	Error     string // why the last one ended; "" while connected
	Streams   uint64 // that brought anything, ever
	Failures  uint64 // that did not
	NameInUse bool   // another agent has the name of this one: Error says which
}

// linesPerMinute bounds the log lines about the stream. More lines have the level debug.
const linesPerMinute = 10

// New makes a client; Run starts it.
func New(o Options, a Agent) *Client {
	o.Every = cmp.Or(o.Every, exchange.ReportEvery)
	o.Silence = cmp.Or(o.Silence, 5*time.Second)
	if o.Start.IsZero() {
		o.Start = time.Now()
	}
	return &Client{o: o, agent: a, leaving: make(chan struct{}),
		lines: rate.NewLimiter(rate.Every(time.Minute/linesPerMinute), linesPerMinute),
		inUse: rate.Sometimes{First: 1, Interval: time.Minute}}
}

// Status returns where the stream stands.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state
	s.Streams, s.Failures = c.streams.Load(), c.failures.Load()
	return s
}

// Block closes the stream and opens no other until it is lifted. For tests and demonstrations.
func (c *Client) Block(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blocked = on
	if on && c.cancel != nil {
		c.cancel(errBlocked)
	}
}

// Why an attempt was ended from here.
var (
	errBlocked = errors.New("cut off by fault injection")
	errSilent  = errors.New("the coordinator said nothing for too long")
)

// Leave sends one more report, after which this side of the stream is closed, and
// opens no other: Run returns when the coordinator has ended the stream.
func (c *Client) Leave() { c.leave.Do(func() { close(c.leaving) }) }

// left reports whether Leave was called.
func (c *Client) left() bool {
	select {
	case <-c.leaving:
		return true
	default:
		return false
	}
}

// idle waits until ctx ends, or until Leave.
func (c *Client) idle(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-c.leaving:
	}
}

// longestPause returns the longest pause after an error.
func longestPause(err error) time.Duration {
	if isNameInUse(err) {
		return maxNamePause
	}
	return maxPause
}

// Run keeps a stream open until ctx ends, or until after Leave.
func (c *Client) Run(ctx context.Context) error {
	if len(c.o.Addresses) == 0 {
		c.idle(ctx)
		return nil
	}
	pause, hint := firstPause, ""
	for turn := 0; ; {
		if c.before != nil && !c.before(ctx) {
			return nil
		}
		address := hint
		if address == "" {
			address = c.o.Addresses[turn%len(c.o.Addresses)]
			turn++
		}
		gotAny, err := c.attempt(ctx, address)
		if ctx.Err() != nil || c.left() {
			return nil
		}
		leader, longest := LeaderOf(err), longestPause(err)
		c.ended(address, gotAny, err)
		if gotAny && status.Code(err) != codes.Aborted { // aborted: another agent has this one's name
			pause = firstPause
		}
		if leader != "" && leader != address && hint == "" && !c.stays {
			hint = leader // at once, but only once: two may point at each other
			continue
		}
		hint, pause = "", min(pause, longest)
		if !c.sleep(ctx, pause/2+rand.N(pause/2+1)) {
			return nil
		}
		pause = min(2*pause, longest)
	}
}

// sleep is false if ctx ended first, or Leave was called.
func (c *Client) sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c.leaving:
		return false
	case <-time.After(d):
		return true
	}
}

// isNameInUse reports whether a coordinator has refused this agent because another one has its name.
func isNameInUse(err error) bool {
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.AlreadyExists {
		return false
	}
	return slices.ContainsFunc(s.Details(), func(d any) bool {
		info, is := d.(*errdetails.ErrorInfo)
		return is && info.GetReason() == "NAME_IN_USE"
	})
}

// LeaderOf reads the leader's address out of a refusal, "" if there is none.
func LeaderOf(err error) string {
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.FailedPrecondition {
		return ""
	}
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetReason() == "NOT_LEADER" {
			return info.GetMetadata()["leader"]
		}
	}
	return ""
}

// ended notes and logs the end of an attempt: the first failure of a kind is worth a line, its repetition is not.
func (c *Client) ended(address string, gotAny bool, err error) {
	if c.over != nil {
		defer c.over()
	}
	if gotAny {
		c.streams.Add(1)
	} else {
		c.failures.Add(1)
	}
	c.mu.Lock()
	again := !gotAny && !c.state.Connected && c.state.Error != ""
	c.state = Status{Address: address, Error: fmt.Sprint(err), NameInUse: isNameInUse(err)}
	inUse := c.state.NameInUse
	c.mu.Unlock()
	if inUse {
		c.inUse.Do(func() {
			c.o.Log.Error("this agent is refused, because another one has its name; what the coordinator last said "+
				"stays in force; more such refusals within a minute are not logged", "address", address, "error", err)
		})
		return
	}
	level := slog.LevelWarn
	if again || errors.Is(err, errBlocked) || !c.lines.Allow() {
		level = slog.LevelDebug
	}
	c.o.Log.Log(context.Background(), level, "no stream to the coordinator; what it last said stays in force",
		"address", address, "error", err)
}

func (c *Client) received(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.state.Connected {
		level := slog.LevelInfo
		if !c.lines.Allow() {
			level = slog.LevelDebug
		}
		c.o.Log.Log(context.Background(), level, "stream to the coordinator", "address", address)
	}
	c.state = Status{Connected: true, Address: address}
}

// begin makes the context of an attempt, which Block can end.
func (c *Client) begin(ctx context.Context) (context.Context, context.CancelCauseFunc, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blocked {
		return nil, nil, errBlocked
	}
	ctx, cancel := context.WithCancelCause(ctx)
	c.cancel = cancel
	return ctx, cancel, nil
}

// attempt runs one stream to its end, which always has an error. gotAny is true if a message came.
func (c *Client) attempt(ctx context.Context, address string) (gotAny bool, err error) {
	ctx, cancel, err := c.begin(ctx)
	if err != nil {
		return false, err
	}
	defer cancel(nil)
	dial := append([]grpc.DialOption{
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: firstPause, Multiplier: 2,
			Jitter: .2, MaxDelay: maxPause}, MinConnectTimeout: connectTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithDisableServiceConfig(), // its DNS question hangs on networks that are cut off from the world
	}, c.o.Dial...)
	conn, err := grpc.NewClient(address, dial...)
	if err != nil {
		return false, fmt.Errorf("coordinator %s: %w", address, err)
	}
	defer conn.Close()
	s := &session{c: c, address: address, answers: make(chan *controlv1.ConnectRequest, 16)}
	watchdog := time.AfterFunc(c.o.Silence, func() { cancel(errSilent) })
	defer watchdog.Stop()
	s.alive = func() { watchdog.Reset(c.o.Silence) }
	err = s.run(ctx, controlv1.NewControlServiceClient(conn))
	if cause := context.Cause(ctx); errors.Is(cause, errBlocked) || errors.Is(cause, errSilent) {
		err = cause
	}
	return s.gotAny, err
}
