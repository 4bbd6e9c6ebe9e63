// Package process is the state that all Titrate configurations of an Envoy process
// share: the engine, its ticker, the link to the agent, the metrics and the admin page.
//
// Envoy loads two kinds of extensions from one object. The bootstrap extension creates the process's state when
// Envoy starts, and ends it when Envoy stops. HTTP filters come and go with their listeners, and only use it.
// So a reload of a listener loses no state.
//
// The package knows nothing of Envoy: package shim gives it the functions that call
// Envoy, and calls it from Envoy's hooks.
//
// # Lifecycle
//
//	New      configuration read; nothing runs yet
//	Start    the keys of a hot restart's parent are received; ticker and link run
//	Ready    Envoy may take traffic
//	Stop     the ticker ends, held requests are released
//	End      the agent has the last state, the link ends
//
// After End no goroutine of this process calls Envoy.
package process

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/adminpage"
	"github.com/titrate/titrate/envoy-filter/agentlink"
	"github.com/titrate/titrate/envoy-filter/decisions"
	"github.com/titrate/titrate/envoy-filter/enforcer"
	"github.com/titrate/titrate/envoy-filter/hotrestart"
	"github.com/titrate/titrate/envoy-filter/settings"
	"github.com/titrate/titrate/envoy-filter/slots"
	"github.com/titrate/titrate/envoy-filter/stats"
	"github.com/titrate/titrate/proto/link"
)

// Level of a line in Envoy's log.
type Level int

// The levels.
const (
	Info Level = iota
	Warn
	Error
)

// Options are the inputs of a process from Envoy. All are required.
type Options struct {
	Settings *settings.Bootstrap
	// Slots has the names of identities, classes and costs.
	Slots *slots.Registry
	// Sink receives the metrics.
	Sink stats.Sink
	// Log writes a line to Envoy's log, from any thread.
	Log func(level Level, text string)
	// Deliver receives the events of one tick. It must not keep the slice.
	Deliver func([]limiter.Event)
	// OnWake is called first in each tick, on the ticker's thread.
	OnWake func()
	// NewFlight allocates the counters of a flow's requests at the upstream.
	NewFlight func() *limiter.Flight
	// OnWanted is called when limits begin to need other identities or classes.
	OnWanted func(limiter.Wanted)
}

// Process is one Envoy's state. Create it with New.
type Process struct {
	// Enforcer decides requests.
	Enforcer *enforcer.Enforcer

	o         Options
	engine    *limiter.Engine
	stats     *stats.Publisher
	link      *agentlink.Client
	linkDone  chan struct{} // the link's goroutine has ended
	ctx       context.Context
	cancel    context.CancelFunc
	start     sync.Once
	end       sync.Once
	observer  *observer
	decisions decisions.Buffer
	page      *adminpage.Source
	alarm     alarm
	socket    string // of hot restarts
	// readyAt is the latest time at which Envoy takes traffic, on the enforcer's clock.
	readyAt int64
}

// New returns a process in which nothing runs yet.
func New(o Options) *Process {
	b := o.Settings
	p := &Process{o: o, linkDone: make(chan struct{}), socket: hotrestart.SocketName(b.Replica, b.AgentSocket)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	bell := agentlink.NewBell()
	p.engine = limiter.New(limiter.Options{
		Keys: b.Keys, Contended: b.Contended, Unknown: b.Unknown, Boot: b.Boot, Replica: b.Replica,
		Start: enforcer.Now(), Flight: o.NewFlight, Wants: o.OnWanted, Ask: bell.Ring,
	})
	p.NameSlots(o.Slots.Names())
	p.stats = stats.New(p.engine, o.Sink, enforcer.Now)
	p.observer = &observer{waits: &p.stats.Waits}
	p.Enforcer = enforcer.New(enforcer.Options{
		Engine: p.engine, Observer: p.observer, FailurePolicy: b.Boot, Deliver: o.Deliver, OnWake: o.OnWake,
		Log: func(text string) { o.Log(Error, text) },
	})
	p.link = agentlink.New(agentlink.Options{
		Socket: b.AgentSocket, Engine: p.engine, Now: enforcer.Now, RecoverPanic: p.Enforcer.RecoverPanic,
		Hello: link.Hello{
			Replica: b.Replica, Weight: b.Weight, PID: os.Getpid(), Restart: restarts(),
			Generation: uint64(time.Now().UnixNano()),
		},
		Log:   func(text string) { o.Log(Info, text) },
		Asked: bell, Answer: p.Enforcer.Answer, AnswerSlots: p.Enforcer.AnswerSlots,
		AnswerQuotas: p.Enforcer.AnswerQuotas,
		Clients:      p.observer.report, ClientParts: clientParts, Decisions: &p.decisions,
	})
	p.page = p.newPage()
	return p
}

// restarts is 1 + the epoch of Envoy's hot restart, from its command line; 0 if
// that cannot be read.
func restarts() int {
	line, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		return 0
	}
	return settings.RestartEpoch(strings.Split(string(line), "\x00")) + 1
}

// NameSlots gives the engine the names of identities, classes and costs.
func (p *Process) NameSlots(n limiter.Names) { p.engine.Name(n) }

// UnknownTenantStatus is the HTTP status of refusals of unknown tenants.
func (p *Process) UnknownTenantStatus() int { return p.o.Settings.UnknownStatus }

// Start runs the ticker and the link. Further calls do nothing.
func (p *Process) Start() {
	p.start.Do(func() {
		p.readyAt = enforcer.Now() + int64(p.o.Settings.BootWait)
		p.restart()
		p.Enforcer.Start()
		go func() {
			defer close(p.linkDone)
			defer p.Enforcer.RecoverPanic("the link")
			p.link.Run(p.ctx)
		}()
	})
}

// restart receives what clients have spent from the Envoy that this one replaces in a hot
// restart, if there is one, and then serves the next Envoy.
func (p *Process) restart() {
	defer p.Enforcer.RecoverPanic("the hot restart")
	receive := func(s exchange.KeySpent) { p.engine.RestoreSpent(enforcer.Now(), s) }
	keys, err := hotrestart.Receive(p.socket, receive)
	if err != nil {
		p.o.Log(Warn, "titrate: the Envoy before this one did not send all spent tokens of clients; "+
			"some begin with whole bursts: "+err.Error())
	} else if keys > 0 {
		p.o.Log(Info, fmt.Sprintf(
			"titrate: took over the spent tokens of %d keys from the Envoy before this one", keys))
	}
	go func() {
		defer p.Enforcer.RecoverPanic("the hot restart's socket")
		each := func(visit func(exchange.KeySpent)) { p.engine.VisitSpent(enforcer.Now(), visit) }
		if err := hotrestart.Serve(p.ctx, p.socket, each); err != nil {
			p.o.Log(Warn, "titrate: after a hot restart clients will begin with whole bursts: "+err.Error())
		}
	}()
}

// Ready returns whether Envoy may take traffic: the first configuration is in force, or
// boot_wait has passed.
func (p *Process) Ready() bool {
	select {
	case <-p.link.Ready():
		return true
	default:
	}
	if enforcer.Now() < p.readyAt {
		return false
	}
	if wait := p.o.Settings.BootWait; wait > 0 {
		p.o.Log(Warn, fmt.Sprintf(
			"titrate: no configuration within boot_wait (%v); Envoy takes traffic by boot_policy", wait))
	}
	return true
}

// Publish updates Envoy's metrics; on Envoy's main thread only.
func (p *Process) Publish() {
	defer p.Enforcer.RecoverPanic("metrics")
	s := &p.link.Status
	p.stats.Publish(stats.Process{
		Panics: p.Enforcer.Panics(), CostRefused: p.Enforcer.InvalidCosts(),
		Usage: p.Enforcer.UsagesRead(), Goroutines: runtime.NumGoroutine(),
		LinkConnected: s.Connected.Load(), LinkSessions: s.Sessions.Load(), LinkMalformed: s.Malformed.Load(),
		ConfigRefused: s.Refused.Load(), LimitsLeftOut: s.LeftOut.Load(), DecisionsUntold: p.decisions.Lost(),
	})
	if text := p.alarm.check(p.stats.Parted(), enforcer.Now()); text != "" {
		p.o.Log(Warn, text)
	}
}

// Stop ends the ticker and releases all held requests. It returns whether released requests may still be at the
// upstream; Envoy waits for these requests before it calls End.
func (p *Process) Stop() (inFlight bool) {
	defer p.Enforcer.RecoverPanic("the end of the ticker")
	return p.Enforcer.Stop()
}

// endTimeout bounds how long Envoy's exit waits for the agent, and then for the link's
// goroutine, which calls Envoy for its log only.
const endTimeout = time.Second

// End sends the agent what clients have spent, and ends the link. Further calls do
// nothing.
func (p *Process) End() {
	p.end.Do(func() {
		defer p.Enforcer.RecoverPanic("the end of the link")
		started := true
		p.start.Do(func() { started = false })
		if started {
			p.link.Finish(endTimeout)
		}
		p.cancel()
		if started {
			select {
			case <-p.linkDone:
			case <-time.After(endTimeout):
			}
		}
		p.Publish()
	})
}
