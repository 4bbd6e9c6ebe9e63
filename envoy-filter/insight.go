package main

/*
#include "admin.h"
*/
import "C"

import (
	"fmt"
	"net/http"
	"time"
	"unsafe"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/adminpage"
	"github.com/titrate/titrate/envoy-filter/enforcer"
	"github.com/titrate/titrate/envoy-filter/heavyhitters"
	"github.com/titrate/titrate/envoy-filter/settings"
	"github.com/titrate/titrate/envoy-filter/stats"
	"github.com/titrate/titrate/proto/link"
)

// insight is what people see of the process beside its counters. Requests that are
// admitted at once touch nothing of it.
type insight struct {
	stats   *stats.Publisher
	refused heavyhitters.Sketch // requests
	held    heavyhitters.Sketch // seconds
	page    *adminpage.Source
}

// open lets the page see the process, whose other parts are there by now.
func (i *insight) open(p *process, b *settings.Bootstrap) {
	i.page = &adminpage.Source{
		Engine: p.engine, Refused: &i.refused, Held: &i.held, Replica: b.Replica, Started: time.Now(),
		Now: enforcer.Now, Names: names.Names, Panics: func() uint64 { return p.enforcer.Panics() },
		Link: func() adminpage.Link {
			s := &p.link.Status
			l := adminpage.Link{Connected: s.Connected.Load(), Sessions: s.Sessions.Load(), Malformed: s.Malformed.Load()}
			l.RefusedRevision, l.RefusedReason = p.link.Refusal()
			l.LimitsLeftOut, l.LeftOut = leftOut(p.link.LeftOutLimits())
			return l
		},
	}
}

// mostLeftOut bounds the list on the page.
const mostLeftOut = 20

func leftOut(r *link.Refused) (total int64, lines []string) {
	if r == nil {
		return 0, nil
	}
	for _, l := range r.Limits[:min(len(r.Limits), mostLeftOut)] {
		lines = append(lines, fmt.Sprintf("tenant %q, limit %q: %s", l.Tenant, l.Limit, l.Reason))
	}
	return int64(r.Total), lines
}

// Refused implements enforcer.Observer.
func (i *insight) Refused(now int64, r *limiter.Request) {
	i.refused.Add(now, r.Tenant, r.Client, r.Pool, 1)
}

// Ended implements enforcer.Observer.
func (i *insight) Ended(now int64, events []limiter.Event) {
	i.stats.Waits.Add(events)
	for k := range events {
		e := &events[k]
		i.held.Add(now, e.Tenant, e.Client, e.Pool, e.Outcome.Waited.Seconds())
		if e.Outcome.Verdict == limiter.Reject {
			i.refused.Add(now, e.Tenant, e.Client, e.Pool, 1)
		}
	}
}

// titrateAdmin answers a request for the page and returns its status.
//
//export titrateAdmin
func titrateAdmin(envoy C.abi_bootstrap, path C.abi_bytes) C.uint32_t {
	p := theProcess.Load()
	if p == nil {
		return http.StatusServiceUnavailable
	}
	status, body := p.answer(text(path))
	C.titrate_admin_answer(envoy, (*C.char)(unsafe.Pointer(unsafe.SliceData(body))), C.size_t(len(body)))
	return C.uint32_t(status)
}

func (p *process) answer(path string) (status int, body []byte) {
	status, body = http.StatusInternalServerError, []byte("titrate: recovered a panic, see the log\n")
	defer p.enforcer.RecoverPanic("the page")
	status, body = p.insight.page.Answer(path)
	return status, body
}
