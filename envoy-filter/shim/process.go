package shim

/*
#include "admin.h"
#include "process.h"
#include "rules.h"
*/
import "C"

import (
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/process"
	"github.com/titrate/titrate/envoy-filter/settings"
	"github.com/titrate/titrate/envoy-filter/slots"
)

// moduleName is the value that filter_name and extension_name must have.
const moduleName = "titrate"

// theProcess is set once, by the bootstrap extension, before any request.
var theProcess atomic.Pointer[process.Process]

// names has the slots of this process. Each change is passed to the engine; while Envoy
// only validates, there is none.
var names = slots.New(func(n limiter.Names) {
	if p := theProcess.Load(); p != nil {
		p.NameSlots(n)
	}
})

// titrateInit is called when Envoy has loaded the module, on its main thread.
// False: the module refuses to be loaded.
//
//export titrateInit
func titrateInit() C.bool {
	if missing := C.titrate_missing_symbol(); missing != nil {
		// The missing function may be Envoy's log function.
		fmt.Fprintf(os.Stderr, "titrate: this Envoy has no %s; libtitrate.so needs Envoy 1.38, 1.39 or 1.40\n",
			C.GoString(missing))
		return false
	}
	if other := C.titrate_other_go_runtime(); other != nil {
		logTo(process.Error, fmt.Sprintf("titrate: %s carries a Go runtime; an Envoy process has room for one only, "+
			"remove one of the two modules", C.GoString(other)))
		return false
	}
	setProcs(int(C.titrate_concurrency()))
	return true
}

// titrateBootstrapConfig reads the process's configuration and creates its
// state; nothing runs yet. False refuses the configuration.
//
//export titrateBootstrapConfig
func titrateBootstrapConfig(envoy C.abi_bootstrap, name, config C.abi_bytes) (ok C.bool) {
	defer refuseOnPanic("the bootstrap configuration", func() { ok = false })
	if err := bootstrap(envoy, text(name), text(config)); err != nil {
		logTo(process.Error, err.Error())
		return false
	}
	return true
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
	theProcess.Store(process.New(process.Options{
		Settings: b, Slots: names, Sink: sink, Log: logTo, Deliver: new(deliverer).deliver, OnWake: wakeOnTime,
		NewFlight: newFlight,
		OnWanted:  func(w limiter.Wanted) { C.titrate_want(C.uint32_t(w.Identities), C.uint32_t(w.Classes)) },
	}))
	return nil
}

// titrateStart runs the ticker and the link. False: nothing runs, since Envoy only
// validates its configuration.
//
//export titrateStart
func titrateStart() C.bool {
	if C.titrate_validating() {
		return false
	}
	theProcess.Load().Start()
	return true
}

// titrateReady returns whether Envoy may take traffic.
//
//export titrateReady
func titrateReady() C.bool { return C.bool(theProcess.Load().Ready()) }

// titratePublish updates Envoy's metrics; on its main thread only.
//
//export titratePublish
func titratePublish() { theProcess.Load().Publish() }

// titrateStop ends the ticker and releases all held requests. It returns whether
// requests that have waited may still be at the upstream. Envoy waits for them, and then
// calls titrateEnd.
//
//export titrateStop
func titrateStop() (inFlight C.bool) {
	if p := theProcess.Load(); p != nil {
		inFlight = C.bool(p.Stop())
	}
	return inFlight
}

// titrateEnd sends the agent what clients have spent, and ends the link. Afterwards
// no goroutine of this module calls Envoy.
//
//export titrateEnd
func titrateEnd() {
	if p := theProcess.Load(); p != nil {
		p.End()
	}
}

// titrateAdmin answers a request for the admin page and returns its status.
//
//export titrateAdmin
func titrateAdmin(envoy C.abi_bootstrap, path C.abi_bytes) C.uint32_t {
	p := theProcess.Load()
	if p == nil {
		return http.StatusServiceUnavailable
	}
	status, body := p.Page(text(path))
	C.titrate_admin_answer(envoy, (*C.char)(unsafe.Pointer(unsafe.SliceData(body))), C.size_t(len(body)))
	return C.uint32_t(status)
}

// titrateFilterConfig reads the configuration of an HTTP filter, or of a route
// that overrides it. NULL refuses it; Envoy then keeps the previous one.
//
//export titrateFilterConfig
func titrateFilterConfig(name, config C.abi_bytes, route C.bool) (rules *C.struct_titrate_rules) {
	defer refuseOnPanic("a filter configuration", func() { rules = nil })
	f, err := filter(text(name), text(config), bool(route))
	if err == nil {
		rules, err = newRules(f)
	}
	if err != nil {
		logTo(process.Error, err.Error())
		return nil
	}
	return rules
}

func filter(name, config string, route bool) (*settings.Filter, error) {
	if name != moduleName {
		return nil, fmt.Errorf("titrate: filter_name is %q, %q is needed", name, moduleName)
	}
	if theProcess.Load() == nil && !bool(C.titrate_validating()) {
		return nil, fmt.Errorf("titrate: an HTTP filter without the bootstrap extension; "+
			"add envoy.bootstrap.dynamic_modules with extension_name %s", moduleName)
	}
	parse := settings.ParseFilter
	if route {
		parse = settings.ParseRoute
	}
	f, err := parse([]byte(config))
	if err == nil && bool(C.titrate_before_1_40()) {
		err = f.CheckBefore140()
	}
	return f, err
}

// titrateReleaseSlots releases the slots of rules that are destroyed.
//
//export titrateReleaseSlots
func titrateReleaseSlots(identities, classes, costs C.uint32_t) {
	defer refuseOnPanic("the end of a configuration", func() {})
	names.Release(uint32(identities), uint32(classes), uint32(costs))
}

// refuseOnPanic is deferred where a configuration is read.
func refuseOnPanic(where string, refuse func()) {
	v := recover()
	if v == nil {
		return
	}
	if p := theProcess.Load(); p != nil {
		p.Enforcer.ReportPanic(where, v)
	} else {
		const text = "titrate: recovered a panic in %s; this is a bug, please report it: %v"
		logTo(process.Error, fmt.Sprintf(text, where, v))
	}
	refuse()
}
