package envoytest

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
)

// A limit may name an identity before any filter has it, and filters may rename it. There
// is room for eight in use at a time, however many come and go. (A listener that is
// replaced uses its own until it has drained.)
func TestReloadNames(t *testing.T) {
	t.Parallel()
	e, resource, put := reloadable(t)
	updates := 1.0
	with := func(identities string) {
		t.Helper()
		put(strings.Replace(resource, "cost: { literal: 1 }", "identities: {"+identities+"}", 1))
	}
	updated := func() {
		t.Helper()
		updates++
		e.eventually("the update", func() bool { return e.metric("envoy_listener_manager_lds_update_success{}") >= updates })
		e.serve()
		e.eventually("the end of the filter chains before",
			func() bool { return e.metric("envoy_listener_manager_total_filter_chains_draining{}") == 0 })
	}
	startAgent(t, e.socket, setup(1, config.Queue{}, tenant("acme", by("late", 1)))...)
	e.eventually("the configuration", func() bool { return e.metric("titrate_config_revision{}") > 0 })
	ask := func(user string) int { return e.get("/", "x-tenant", "acme", "x-user", user).status }
	if first, second := ask("u"), ask("v"); first != 200 || second != 429 {
		t.Errorf("without the identity all are one client: %d, %d", first, second)
	}
	for round := range 3 { // names that are used up as they are replaced
		var names []string
		for i := range 4 {
			names = append(names, fmt.Sprintf("r%d-%d: { header: x-user }", round, i))
		}
		with(strings.Join(names, ", "))
		updated()
	}
	with("late: { header: x-user }")
	updated()
	e.eventually("a name per user",
		func() bool { return ask("w"+strconv.Itoa(int(time.Now().UnixNano()))) == 200 })
	if first, second := ask("x"), ask("x"); first != 200 || second != 429 {
		t.Errorf("with the identity: %d, %d", first, second)
	}
	var nine []string
	for i := range 9 {
		nine = append(nine, fmt.Sprintf("n%d: { header: x-user }", i))
	}
	with(strings.Join(nine, ", "))
	e.eventually("the refusal", func() bool { return e.metric("envoy_listener_manager_lds_update_rejected{}") >= 1 })
	e.logged("field identities has 9 names, at most 8 are allowed")
	if status := ask("x"); status != 429 {
		t.Errorf("after a refused update: %d", status)
	}
	e.alive()
}

// Requests that wait for a limit keep the identities that they came with, after
// Envoy has gone on to others, and do not delay requests that are below the limit.
func TestHeldByIdentity(t *testing.T) {
	t.Parallel()
	waiting := config.Limit{Name: "key", Rate: 20, Burst: 1, Identity: "api-key",
		Queue: config.Queue{Law: config.DropTail, MaxWait: 10 * time.Second, MaxRequests: 100}}
	police := config.Limit{Name: "session", Rate: 0.001, Burst: 12, Identity: "session"}
	l := launch{example: "identity-cookie.yaml", concurrency: 2}
	e, _ := l.linked(t, setup(1, config.Queue{}, tenant("acme", waiting, police)))
	answers := make(chan answer, 24)
	for i := range cap(answers) {
		go func() {
			a, err := e.do(context.Background(), http.MethodGet, "/?api_key=%6bey", nil, "cookie",
				fmt.Sprintf("session=s%d", i%2), "x-client", "c")
			if err != nil {
				t.Error(err)
			}
			answers <- a
		}()
	}
	e.eventually("held requests", func() bool { return e.metric("titrate_held{}") >= 10 })
	if a := e.get("/?api_key=other", "cookie", "session=s9", "x-client", "c"); a.status != 200 ||
		a.header.Get("x-titrate-wait-ms") != "" {
		t.Errorf("another key meanwhile: %+v", a)
	}
	waited := 0
	for range cap(answers) {
		a := <-answers
		if a.status != 200 {
			t.Errorf("a held request: %+v", a)
		}
		if a.header.Get("x-titrate-wait-ms") != "" {
			waited++
		}
	}
	if waited < 20 {
		t.Errorf("%d of 24 requests waited at 20/s", waited)
	}
	// Each session was charged for the twelve that were released, none was lost.
	for _, session := range []string{"s0", "s1"} {
		if a := e.get("/?api_key="+session, "cookie", "session="+session); a.status != 429 {
			t.Errorf("session %s has some left: %+v", session, a)
		}
	}
	e.alive()
}
