package envoytest

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/slots"
	"github.com/titrate/titrate/proto/link"
)

// slotOwner owns the slots of all keys, as the one agent of an installation.
type slotOwner struct {
	limit int64
	began time.Time
	keys  map[uint64]*slots.Owner
}

const slotLife = 9

// inFlightLimit starts an Envoy whose clients may have so many requests in flight.
func inFlightLimit(t *testing.T, limit int64, edits ...edit) *envoy {
	t.Helper()
	return inFlightQueue(t, limit, config.Queue{}, edits...)
}

// inFlightQueue is inFlightLimit with a queue.
func inFlightQueue(t *testing.T, limit int64, queue config.Queue, edits ...edit) *envoy {
	t.Helper()
	o := &slotOwner{limit, time.Now(), map[uint64]*slots.Owner{}}
	owners := &exchange.TokenAnswers{Owners: exchange.Owners{View: 1, List: []exchange.Owner{{Hash: 1, Life: slotLife}}}}
	state := setup(1, config.Queue{}, config.Tenant{Name: "acme", Weight: 1,
		Limits: []config.Limit{{Name: "in-flight", Concurrency: limit, Queue: queue}}})
	e, _ := launch{example: quickstart, concurrency: 2, edits: edits}.linkedWith(t, o,
		append([]link.Message{owners}, state...))
	return e
}

// slotReplies collects what an owner says of one key.
type slotReplies struct {
	key uint64
	to  *exchange.SlotReplies
}

func (r slotReplies) Reply(_ slots.Peer, m slots.Reply) {
	r.to.List = append(r.to.List, exchange.SlotReply{Key: r.key, Reply: m})
}

// answer answers a gateway's message. It is called with one message at a time.
func (o *slotOwner) answer(m *exchange.SlotAsks) *exchange.SlotReplies {
	out := &exchange.SlotReplies{Owner: m.Owner, Echo: m.Sent}
	for _, ask := range m.List {
		owner := o.keys[ask.Key]
		if owner == nil {
			owner = slots.NewOwner(o.limit, slotLife, 0)
			o.keys[ask.Key] = owner
		}
		owner.Ask(int64(time.Since(o.began)), 1, ask.Ask, slotReplies{ask.Key, out})
	}
	return out
}

func (e *envoy) inFlight(n float64) {
	e.t.Helper()
	e.eventually(fmt.Sprintf("%v requests with a slot", n), func() bool {
		return e.metric("titrate_concurrency_in_flight{}") == n
	})
}

// However a stream ends, its slot is free then, and not before.
func TestSlotIsHeldUntilTheStreamEnds(t *testing.T) {
	t.Parallel()
	e := inFlightLimit(t, 2)
	e.upstream.Config.Handler = http.HandlerFunc(mixedUpstream)
	for _, c := range []struct {
		path   string
		status int
	}{{"/wait", 200}, {"/busy", 503}, {"/broken", 500}, {"/drop", 503}} {
		if got := e.get(c.path, "x-tenant", "acme"); got.status != c.status {
			t.Errorf("%s: %d", c.path, got.status)
		}
		e.inFlight(0)
	}
	for _, path := range []string{"/events", "/long"} { // one has its headers, one waits for them
		ctx, abort := context.WithCancel(t.Context())
		for range 2 {
			go e.do(ctx, http.MethodGet, path, nil, "x-tenant", "acme")
		}
		e.inFlight(2)
		got := e.get("/", "x-tenant", "acme")
		if got.status != http.StatusTooManyRequests || got.header.Get("x-titrate-reason") != "client_limit" {
			t.Errorf("beside two of %s: %+v", path, got)
		}
		if got := e.get("/", "x-tenant", "acme", "x-client", "another"); got.status != http.StatusOK {
			t.Errorf("another client beside two of %s: %d", path, got.status)
		}
		abort()
		e.inFlight(0)
	}
	e.alive()
}

// With a queue the requests beyond the limit go on one after the other.
func TestSlotsWithAQueue(t *testing.T) {
	t.Parallel()
	const requests = 8
	e := inFlightQueue(t, 1, config.Queue{Law: config.DropTail, MaxWait: 20 * time.Second, MaxRequests: requests})
	var now, most atomic.Int64
	e.upstream.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		time.Sleep(50 * time.Millisecond)
		now.Add(-1)
	})
	for a := range many(t.Context(), e, requests, "x-tenant", "acme") {
		if a.status != http.StatusOK {
			t.Errorf("%+v", a)
		}
	}
	if n := most.Load(); n != 1 {
		t.Errorf("%d requests at the upstream at a time", n)
	}
	e.inFlight(0)
	e.alive()
}

// Retries and mirrored requests are one request in flight.
func TestSlotOfRetriesAndMirrors(t *testing.T) {
	t.Parallel()
	for path, policy := range map[string]string{
		"/flaky": "retry_policy: { retry_on: 5xx, num_retries: 3 }", "/mirror": "request_mirror_policies: [{ cluster: api }]",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			e := inFlightLimit(t, 1, withRoutePolicy(policy))
			e.upstream.Config.Handler = failingUpstream()
			for range 5 {
				if got := e.get(path, "x-tenant", "acme"); got.status != http.StatusOK {
					t.Errorf("%+v", got)
				}
				e.inFlight(0)
			}
			e.alive()
		})
	}
}

// A redirected request keeps its slot. If the filter is off where it is redirected to, the slot is free a second
// later, though no other request comes.
func TestSlotOfARedirectedRequest(t *testing.T) {
	t.Parallel()
	needRedirects(t)
	redirects := withRoutePolicy("internal_redirect_policy: { max_internal_redirects: 1 }")
	without := edit{"      - match: { prefix: / }\n", `      - match: { path: /there }
                route: { cluster: api }
                typed_per_filter_config:
                  titrate:
                    "@type": type.googleapis.com/envoy.config.route.v3.FilterConfig
                    disabled: true
              - match: { prefix: / }
`}
	for what, edits := range map[string][]edit{"with the filter": {redirects}, "without": {redirects, without}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e := inFlightLimit(t, 1, edits...)
			e.upstream.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/":
					w.Header().Set("location", "http://"+r.Host+"/there")
					w.WriteHeader(http.StatusFound)
				case "/there":
					time.Sleep(20 * time.Millisecond)
				}
			})
			for i := range 3 {
				if got := e.get("/", "x-tenant", "acme"); got.status != http.StatusOK {
					t.Errorf("%+v", got)
				}
				e.eventually("metrics of now", func() bool { return e.metric(outcome("api", "admitted")) == float64(i+1) })
				e.inFlight(0)
			}
			e.alive()
		})
	}
}
