package main

/*
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/agentlink"
	"github.com/titrate/titrate/envoy-filter/enforcer"
	"github.com/titrate/titrate/envoy-filter/hotrestart"
	"github.com/titrate/titrate/envoy-filter/settings"
	"github.com/titrate/titrate/envoy-filter/stats"
	"github.com/titrate/titrate/proto/link"
)

// moduleName is what filter_name and extension_name must say.
const moduleName = "titrate"

// process is the state that all configurations of an Envoy share.
type process struct {
	engine   *limiter.Engine
	enforcer *enforcer.Enforcer
	stats    *stats.Publisher
	link     *agentlink.Client
	cancel   context.CancelFunc
	ctx      context.Context
	done     chan struct{} // the link's goroutine has ended
	start    sync.Once
	stop     sync.Once
	end      sync.Once
	insight  *insight
	alarm    alarm  // of Envoy's main thread
	socket   string // of hot restarts, see package hotrestart
	// unknownStatus is of refusals of tenants that are not configured.
	unknownStatus int
	// waitUntil is when Envoy takes traffic at the latest, on the enforcer's clock.
	waitUntil int64
	bootWait  time.Duration
}

// theProcess is set once, by the bootstrap extension, before any request.
var theProcess atomic.Pointer[process]

// titrateInit is called when Envoy has loaded the module, on its main thread.
// 0 refuses to be loaded.
//
//export titrateInit
func titrateInit() C.int {
	if missing := C.titrate_missing_symbol(); missing != nil {
		// Envoy's log function may be what is missing.
		fmt.Fprintf(os.Stderr, "titrate: this Envoy has no %s; libtitrate.so needs Envoy 1.40\n", C.GoString(missing))
		return 0
	}
	if other := C.titrate_other_go_runtime(); other != nil {
		logTo(levelError, fmt.Sprintf("titrate: %s carries a Go runtime; an Envoy process has room for one only, remove one of the two modules", C.GoString(other)))
		return 0
	}
	setProcs(int(C.titrate_concurrency()))
	return 1
}

// titrateBootstrapConfig reads the process's configuration and makes its
// state; nothing runs yet. 0 refuses it.
//
//export titrateBootstrapConfig
func titrateBootstrapConfig(envoy C.abi_bootstrap, name, config C.abi_bytes) (ok C.int) {
	defer refuseOnPanic("the bootstrap configuration", func() { ok = 0 })
	if err := bootstrap(envoy, text(name), text(config)); err != nil {
		logTo(levelError, err.Error())
		return 0
	}
	return 1
}

func bootstrap(envoy C.abi_bootstrap, name, config string) error {
	if name != moduleName {
		return fmt.Errorf("titrate: extension_name is %q, %q is needed", name, moduleName)
	}
	if theProcess.Load() != nil {
		return fmt.Errorf("titrate: a second bootstrap extension of module %s; one per Envoy is enough", moduleName)
	}
	b, err := settings.ParseBootstrap([]byte(config))
	if err != nil {
		return err
	}
	if b.Concurrency > 0 {
		setProcs(b.Concurrency)
	}
	sink, err := newSink(envoy)
	if err != nil {
		return err
	}
	theProcess.Store(newProcess(b, sink))
	return nil
}

func newProcess(b *settings.Bootstrap, sink *sink) *process {
	engine := limiter.New(limiter.Options{
		Keys: b.Keys, Unknown: b.Unknown, Boot: b.Boot, Replica: b.Replica, Start: enforcer.Now(), Flight: newFlight, Wants: want,
	})
	engine.Name(names.Names())
	p := &process{engine: engine, done: make(chan struct{}), unknownStatus: b.UnknownStatus, bootWait: b.BootWait}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.stats = stats.New(engine, sink, enforcer.Now)
	watch := &insight{stats: p.stats}
	p.enforcer = enforcer.New(enforcer.Options{
		Engine:        engine,
		Observer:      watch,
		FailurePolicy: b.Boot,
		Deliver:       new(releaser).deliver,
		OnWake:        punctual,
		Log:           func(text string) { logTo(levelError, text) },
	})
	p.link = agentlink.New(agentlink.Options{
		Socket: b.AgentSocket, Engine: engine, Now: enforcer.Now, RecoverPanic: p.enforcer.RecoverPanic,
		Hello: link.Hello{
			Replica: b.Replica, Weight: b.Weight, PID: os.Getpid(), Restart: restarts(), Generation: uint64(time.Now().UnixNano()),
		},
		Log: func(text string) { logTo(levelInfo, text) },
	})
	p.socket = hotrestart.SocketName(b.Replica, b.AgentSocket)
	p.insight = watch
	watch.open(p, b)
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

func (p *process) numbers() stats.Process {
	s := &p.link.Status
	return stats.Process{
		Panics: p.enforcer.Panics(), LinkSessions: s.Sessions.Load(), LinkMalformed: s.Malformed.Load(),
		ConfigRefused: s.Refused.Load(), CostRefused: p.enforcer.InvalidCosts(), LimitsLeftOut: s.LeftOut.Load(), LinkConnected: s.Connected.Load(),
		Goroutines: runtime.NumGoroutine(),
	}
}

// titratePublish brings Envoy's metrics up to date; on its main thread only.
//
//export titratePublish
func titratePublish() { theProcess.Load().publish() }

func (p *process) publish() {
	defer p.enforcer.RecoverPanic("metrics")
	p.stats.Publish(p.numbers())
	p.alarm.look(p.stats.Parted(), enforcer.Now())
}

// alarm says in Envoy's log, at most once a minute, that keys are beyond the budget.
type alarm struct {
	parted uint64 // said so far
	at     int64
}

func (a *alarm) look(n uint64, now int64) {
	if n == a.parted || a.at > 0 && now-a.at < int64(time.Minute) {
		return
	}
	logTo(levelWarn, fmt.Sprintf("titrate: %d requests more of keys beyond the budget of contended keys; such a key is held to its part of "+
		"its limit by each gateway (rate/N, burst/N). Either names are invented, or this gateway has more busy clients than keys/16", n-a.parted))
	a.parted, a.at = n, now
}

// titrateStart runs the ticker and the link. 0: nothing runs, since Envoy only
// validates its configuration.
//
//export titrateStart
func titrateStart() C.int {
	p := theProcess.Load()
	if C.titrate_validating() {
		return 0
	}
	p.start.Do(func() {
		p.waitUntil = enforcer.Now() + int64(p.bootWait)
		p.inherit()
		p.enforcer.Start()
		go func() {
			defer close(p.done)
			defer p.enforcer.RecoverPanic("the link")
			p.link.Run(p.ctx)
		}()
	})
	return 1
}

// titrateReady tells whether Envoy may take traffic: the first configuration is in
// force, or it was waited for as long as boot_wait says.
//
//export titrateReady
func titrateReady() C.int {
	p := theProcess.Load()
	select {
	case <-p.link.Ready():
		return 1
	default:
	}
	if enforcer.Now() < p.waitUntil {
		return 0
	}
	if p.bootWait > 0 {
		logTo(levelWarn, fmt.Sprintf("titrate: no configuration within boot_wait (%v); Envoy takes traffic by boot_policy", p.bootWait))
	}
	return 1
}

// inherit takes over from the Envoy that this one replaces in a hot restart, if
// any, before the first request; then it waits for a child of its own.
func (p *process) inherit() {
	defer p.enforcer.RecoverPanic("what is inherited")
	keys, err := hotrestart.Receive(p.socket, func(s exchange.KeySpent) { p.engine.Inherit(enforcer.Now(), s) })
	if err != nil {
		logTo(levelWarn, "titrate: not all that clients have spent is known from the Envoy before this one: "+err.Error())
	} else if keys > 0 {
		logTo(levelInfo, fmt.Sprintf("titrate: took over from the Envoy before this one what %d keys have spent", keys))
	}
	go func() {
		defer p.enforcer.RecoverPanic("the hot restart's socket")
		err := hotrestart.Serve(p.ctx, p.socket, func(visit func(exchange.KeySpent)) { p.engine.Bequeath(enforcer.Now(), visit) })
		if err != nil {
			logTo(levelWarn, "titrate: a hot restart will begin with whole bursts: "+err.Error())
		}
	}()
}

// stopPatience bounds how long Envoy's exit waits for the link's goroutine; it
// calls Envoy for its log only.
const stopPatience = time.Second

// titrateStop ends the ticker and releases what is held; it tells whether requests that
// have waited may be under way. Envoy waits for it and for titrateEnd.
//
//export titrateStop
func titrateStop() (underWay C.bool) {
	p := theProcess.Load()
	if p == nil {
		return false
	}
	p.stop.Do(func() {
		defer p.enforcer.RecoverPanic("the end of the ticker")
		underWay = C.bool(p.enforcer.Stop())
	})
	return underWay
}

// titrateEnd tells the agent what clients have spent and ends the link. Afterwards
// nothing of this module calls Envoy by itself.
//
//export titrateEnd
func titrateEnd() {
	p := theProcess.Load()
	if p == nil {
		return
	}
	p.end.Do(func() {
		defer p.enforcer.RecoverPanic("the end of the link")
		started := true
		p.start.Do(func() { started = false })
		if started {
			p.link.Finish(stopPatience)
		}
		p.cancel()
		if started {
			select {
			case <-p.done:
			case <-time.After(stopPatience):
			}
		}
		p.publish()
	})
}

// titrateFilterConfig reads the configuration of an HTTP filter, or of a route
// that overrides it. NULL refuses it; Envoy then keeps the previous one.
//
//export titrateFilterConfig
func titrateFilterConfig(name, config C.abi_bytes, route C.int) (rules *C.struct_titrate_rules) {
	defer refuseOnPanic("a filter configuration", func() { rules = nil })
	f, err := filter(text(name), text(config), route != 0)
	if err != nil {
		logTo(levelError, err.Error())
		return nil
	}
	rules, err = compile(f)
	if err != nil {
		logTo(levelError, err.Error())
	}
	return rules
}

func filter(name, config string, route bool) (*settings.Filter, error) {
	if name != moduleName {
		return nil, fmt.Errorf("titrate: filter_name is %q, %q is needed", name, moduleName)
	}
	if theProcess.Load() == nil && !bool(C.titrate_validating()) {
		return nil, fmt.Errorf("titrate: an HTTP filter without the bootstrap extension; add envoy.bootstrap.dynamic_modules with extension_name %s", moduleName)
	}
	if route {
		return settings.ParseRoute([]byte(config))
	}
	return settings.ParseFilter([]byte(config))
}

// refuseOnPanic is deferred where a configuration is read.
func refuseOnPanic(where string, refuse func()) {
	v := recover()
	if v == nil {
		return
	}
	if p := theProcess.Load(); p != nil {
		p.enforcer.ReportPanic(where, v)
	} else {
		logTo(levelError, fmt.Sprintf("titrate: recovered a panic in %s; this is a bug, please report it: %v", where, v))
	}
	refuse()
}
