package shim

/*
#cgo CFLAGS: -O2 -Wall -Wextra -Wno-unused-parameter -fvisibility=default
#include <stdlib.h>
#include "held.h"
#include "process.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/process"
	"github.com/titrate/titrate/envoy-filter/stats"
)

var envoyLevels = [...]C.int{
	process.Info: C.ABI_LOG_INFO, process.Warn: C.ABI_LOG_WARN, process.Error: C.ABI_LOG_ERROR,
}

// logTo writes one line to Envoy's log, from any thread.
func logTo(level process.Level, text string) {
	if text != "" {
		data := (*C.char)(unsafe.Pointer(unsafe.StringData(text)))
		C.titrate_log(envoyLevels[level], data, C.size_t(len(text)))
	}
}

// text is a view of Envoy's memory as a string: for the call's duration only.
func text(b C.abi_bytes) string {
	return unsafe.String((*byte)(unsafe.Pointer(b.ptr)), int(b.length))
}

// deliverer passes a tick's events to C in one call, using its memory again.
type deliverer struct{ events []C.struct_titrate_event }

func (d *deliverer) deliver(events []limiter.Event) {
	d.events = d.events[:0]
	for i := range events {
		e := &events[i]
		var c C.struct_titrate_event
		c.ticket = C.uint64_t(e.Ticket)
		c.retry_after_ns = C.uint64_t(max(e.Outcome.RetryAfter, 0))
		c.wait_ms = C.uint32_t(max(e.Outcome.Waited.Milliseconds(), 0))
		c.verdict = C.uint8_t(e.Outcome.Verdict)
		c.reason = C.uint8_t(e.Outcome.Reason)
		c.mark = C.bool(e.Outcome.Mark)
		c.shadow = C.bool(e.Outcome.Shadow)
		c.slots = C.uint64_t(e.Outcome.Slots)
		put(c.held_by[:], &c.held_by_length, e.HeldBy)
		d.events = append(d.events, c)
	}
	C.titrate_release(&d.events[0], C.size_t(len(d.events)))
	for i := range d.events {
		if c := &d.events[i]; bool(c.dropped) && c.slots != 0 {
			go theProcess.Load().Enforcer.FreeSlots(limiter.Slots(c.slots)) // which delivers, too
		}
	}
}

// sink publishes metrics in Envoy's stats; on Envoy's main thread only.
type sink struct {
	envoy C.abi_bootstrap
	ids   [len(stats.Table)]C.size_t
}

func newSink(envoy C.abi_bootstrap) (*sink, error) {
	s := &sink{envoy: envoy}
	for i, d := range stats.Table {
		labels, n, free := views(d.Labels)
		name, _, freeName := views([]string{d.Name})
		ok := C.titrate_define_metric(envoy, C.int(d.Kind), *name, labels, n, &s.ids[i])
		free()
		freeName()
		if !ok {
			return nil, fmt.Errorf("titrate: Envoy refuses the metric %s", d.Name)
		}
	}
	return s, nil
}

// Count implements stats.Sink.
func (s *sink) Count(m stats.Metric, delta uint64, labels ...string) {
	list, n, free := views(labels)
	defer free()
	C.titrate_count(s.envoy, s.ids[m], list, n, C.uint64_t(delta))
}

// Set implements stats.Sink.
func (s *sink) Set(m stats.Metric, value uint64, labels ...string) {
	list, n, free := views(labels)
	defer free()
	C.titrate_set(s.envoy, s.ids[m], list, n, C.uint64_t(value))
}

// Observe implements stats.Sink.
func (s *sink) Observe(m stats.Metric, value, times uint64, labels ...string) {
	list, n, free := views(labels)
	defer free()
	C.titrate_observe(s.envoy, s.ids[m], list, n, C.uint64_t(value), C.uint64_t(times))
}

// views copies strings into C's memory: an array of views cannot point from
// Go's memory to Go's memory.
func views(list []string) (array *C.abi_bytes, n C.size_t, free func()) {
	if len(list) == 0 {
		return nil, 0, func() {}
	}
	array = (*C.abi_bytes)(C.malloc(C.size_t(len(list)) * C.size_t(unsafe.Sizeof(C.abi_bytes{}))))
	all := unsafe.Slice(array, len(list))
	for i, s := range list {
		all[i] = C.abi_bytes{ptr: C.CString(s), length: C.size_t(len(s))}
	}
	return array, C.size_t(len(list)), func() {
		for _, v := range all {
			C.free(unsafe.Pointer(v.ptr))
		}
		C.free(unsafe.Pointer(array))
	}
}
