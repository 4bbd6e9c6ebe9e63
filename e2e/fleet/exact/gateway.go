// Package exact is a gateway with many clients of an EXACT limit. It has the engine, its ticker and the link
// to the agent as an Envoy has them (packages enforcer and agentlink), without an Envoy. So an agent and its
// gateway exchange the same token messages as in an installation.
//
// # Model
//
//	plan      the requests: each client stays below its limit
//	Gateway   asks its engine, and counts the outcomes
//
// Requests of other plans go in with Ask. Each client has a gateway. One client of twenty goes to all gateways in
// turn. Pause stops a gateway, as SIGSTOP stops a process; its sockets fill meanwhile.
package exact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/agentlink"
	"github.com/titrate/titrate/envoy-filter/enforcer"
	"github.com/titrate/titrate/proto/link"
)

// Pool is the upstream pool of all requests.
const Pool = "exact"

// Tenants have the clients in turn. An owner has room for more keys of several tenants than of one.
var Tenants = []string{"one", "two", "three", "four"}

// step is the time between two looks for due requests.
const step = 5 * time.Millisecond

// Options of a gateway.
type Options struct {
	// Socket is the agent's, Name the gateway's.
	Socket, Name string
	// Place is the gateway's among Gateways that have Keys clients each. A gateway whose Serve is not called
	// has no clients.
	Place, Gateways, Keys int
	// Known is the number of clients that gateways have in common, of which each learns.
	Known int
	// Split is the time after which a gateway without an agent may refuse requests beyond its part of a limit.
	Split time.Duration
}

// Gateway is one. Make it with New, start its clients with Serve.
type Gateway struct {
	o        Options
	engine   *limiter.Engine
	enforcer *enforcer.Enforcer
	link     *agentlink.Client
	plan     plan
	end      context.CancelFunc // of the clients
	unlink   context.CancelFunc
	serving  sync.WaitGroup
	linking  sync.WaitGroup

	gate   sync.RWMutex // locked: the gateway is paused
	paused atomic.Bool
	alone  atomic.Int64 // since when it has no agent, by enforcer.Now; 0: it has one

	requests, refused atomic.Uint64
	late              atomic.Int64
	tickets           atomic.Uint64
	mu                sync.Mutex
	waiting           map[uint64]func(*limiter.Outcome) // requests, by ticket
	first             string                            // refusal
	wrong             error
}

// Counts are the counts of a gateway since its start.
type Counts struct {
	Requests uint64 // of clients
	Ledger   uint64 // requests that no owner decided
	Unasked  uint64 // of them, requests about which no owner was asked: there was no room or no question left
	Refused  uint64 // requests, except requests that may be refused
	Links    uint64 // to the agent
}

// New links a gateway to its agent, and keeps it linked.
func New(o Options) *Gateway {
	bell := agentlink.NewBell()
	g := &Gateway{o: o, plan: plan{home: o.Place, gateways: o.Gateways, keys: o.Keys}, end: func() {},
		waiting: map[uint64]func(*limiter.Outcome){}}
	g.engine = limiter.New(limiter.Options{Keys: max(1024, 4*o.Keys, 2*o.Known), Replica: o.Name, Start: enforcer.Now(),
		Ask: bell.Ring})
	g.enforcer = enforcer.New(enforcer.Options{Engine: g.engine, FailurePolicy: limiter.BootOpen, Deliver: g.ended,
		Log: g.fail, OnWake: g.pass})
	g.link = agentlink.New(agentlink.Options{Socket: o.Socket, Engine: g.engine, Asked: bell, Answer: g.answer,
		Now: g.now, RecoverPanic: g.enforcer.RecoverPanic, Log: func(string) {},
		Hello: link.Hello{Replica: o.Name, Weight: 1, PID: os.Getpid(), Generation: uint64(time.Now().UnixNano()),
			Envoy: "none: fleet"}})
	g.enforcer.Start()
	var linked context.Context
	linked, g.unlink = context.WithCancel(context.Background())
	g.linking.Go(func() { g.link.Run(linked) })
	return g
}

// Ready is closed once the gateway has a configuration and the others' state.
func (g *Gateway) Ready() <-chan struct{} { return g.link.Ready() }

// Linked reports whether there is a link to the agent.
func (g *Gateway) Linked() bool { return g.link.Connected.Load() }

// Serve starts the clients; all are the gateways that have some.
func (g *Gateway) Serve(all []*Gateway) {
	var ctx context.Context
	ctx, g.end = context.WithCancel(context.Background())
	g.serving.Go(func() { g.live(ctx, all) })
}

// Served reports whether each client has asked once.
func (g *Gateway) Served() bool { return g.requests.Load() >= uint64(g.o.Keys) }

// Alone notes that the gateway's agent is gone, or there again.
func (g *Gateway) Alone(is bool) {
	since := int64(0)
	if is {
		since = enforcer.Now()
	}
	g.alone.Store(since)
}

// Pause holds up everything that the gateway does for so long.
func (g *Gateway) Pause(d time.Duration) {
	g.paused.Store(true)
	g.gate.Lock()
	time.Sleep(d)
	g.gate.Unlock()
	g.paused.Store(false)
}

// pass waits while the gateway is paused.
func (g *Gateway) pass() {
	g.gate.RLock()
	defer g.gate.RUnlock()
}

// now is the clock of the link. It waits while the gateway is paused, so the link does nothing.
func (g *Gateway) now() int64 {
	g.pass()
	return enforcer.Now()
}

func (g *Gateway) answer(a *exchange.TokenAnswers) {
	g.pass()
	g.enforcer.Answer(a)
}

// live sends due requests until the context ends.
func (g *Gateway) live(ctx context.Context, all []*Gateway) {
	tick := time.NewTicker(step)
	defer tick.Stop()
	start := time.Now()
	for last := start; ; last = time.Now() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		g.late.Store(max(g.late.Load(), int64(time.Since(last)-step)))
		g.pass()
		for due := g.plan.due(time.Since(start)); g.plan.sent < due; {
			r := g.plan.next()
			at := all[r.gateway]
			if at.paused.Load() {
				at = g
			}
			at.ask(g.o.Place, r)
		}
	}
}

// ask is a request of a client of the gateway at a place.
func (g *Gateway) ask(home int, r request) {
	request := limiter.Request{Tenant: Tenants[r.client%len(Tenants)], Client: fmt.Sprintf("c-%d-%d", home, r.client),
		Pool: Pool, Cost: r.cost}
	g.Ask(&request, func(out *limiter.Outcome) { g.judge(request.Client, out) })
	g.requests.Add(1)
}

// Ask asks the engine about a request. done is called once with the outcome, which is no Wait: before Ask returns, or
// later if the request waits.
func (g *Gateway) Ask(r *limiter.Request, done func(*limiter.Outcome)) {
	out := g.enforcer.Decide(r)
	if out.Verdict == limiter.Wait {
		ticket := g.tickets.Add(1)
		g.mu.Lock()
		g.waiting[ticket] = done
		g.mu.Unlock()
		if out, _ = g.enforcer.Enqueue(r, ticket); out.Verdict == limiter.Wait {
			return
		}
		g.take(ticket)
	}
	done(&out)
}

// take returns what is to be done at the end of a request that waits.
func (g *Gateway) take(ticket uint64) (done func(*limiter.Outcome)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	done = g.waiting[ticket]
	delete(g.waiting, ticket)
	return done
}

// ended takes the outcomes of requests that have waited.
func (g *Gateway) ended(events []limiter.Event) {
	for i := range events {
		g.take(events[i].Ticket)(&events[i].Outcome)
	}
}

// judge counts a refusal. No client asks for more than its limit allows.
func (g *Gateway) judge(client string, out *limiter.Outcome) {
	if out.Verdict != limiter.Reject {
		return
	}
	if alone := g.alone.Load(); alone != 0 && time.Duration(enforcer.Now()-alone) > g.o.Split {
		return
	}
	g.refused.Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.first = cmp.Or(g.first, fmt.Sprintf("%s refused client %s: %v, limit %q", g.o.Name, client, out.Reason,
		out.Limit))
}

// fail notes the enforcer's reports: a panic, or a ticker that does not end.
func (g *Gateway) fail(text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wrong = cmp.Or(g.wrong, errors.New(text))
}

// Err returns the first fault of the gateway.
func (g *Gateway) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wrong != nil {
		return fmt.Errorf("gateway %s: %w", g.o.Name, g.wrong)
	}
	return nil
}

// Counts returns the counts.
func (g *Gateway) Counts() Counts {
	s := limiter.Stats{Keys: -1} // do not count them
	g.engine.Stats(enforcer.Now(), &s)
	return Counts{Requests: g.requests.Load(), Ledger: s.Exact.Unanswered, Unasked: s.Exact.Unowned,
		Refused: g.refused.Load(), Links: g.link.Sessions.Load()}
}

// Late returns by how much the clients were late since the last call, the most.
func (g *Gateway) Late() time.Duration { return time.Duration(g.late.Swap(0)) }

// FirstRefusal returns the first refused client since the last call, and the reason.
func (g *Gateway) FirstRefusal() (text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	text, g.first = g.first, ""
	return text
}

// finishing bounds the time that Close takes to return granted tokens to the owners.
const finishing = 2 * time.Second

// Close ends the clients, returns tokens that owners have granted, and ends the link.
func (g *Gateway) Close() {
	g.end()
	g.serving.Wait()
	g.link.Finish(finishing)
	g.unlink()
	g.linking.Wait()
	g.enforcer.Stop()
}
