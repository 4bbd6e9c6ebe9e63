package envoytest

import (
	"encoding/json"
	"testing"

	"github.com/titrate/titrate/control/config"
)

// A refusal has the ID that Envoy gave its request, in the body and as a header, and the agent is
// told by that ID what refused it. Of an admitted request it is told nothing.
func TestDecisionByRequestID(t *testing.T) {
	t.Parallel()
	e, agent := linked(t, world(1, config.Queue{}, limited("acme", 0.5, 1)))
	e.get("/", "x-tenant", "acme", "x-client", "alice", "x-request-id", "admitted")
	refused := e.get("/", "x-tenant", "acme", "x-client", "alice")
	var body struct{ Request string }
	if err := json.Unmarshal([]byte(refused.body), &body); err != nil || refused.status != 429 || body.Request == "" ||
		refused.header.Get("x-request-id") != body.Request {
		t.Fatalf("the refusal: %+v, %v", refused, err)
	}
	e.eventually("the decision", func() bool { return agent.decision(body.Request) != nil })
	d := agent.decision(body.Request)
	if !d.Refused || d.Reason != "client_limit" || d.Limit != "per-client" || d.Tenant != "acme" || d.Client != "alice" ||
		d.Pool != "api" || d.RetryAfter <= 0 || len(d.Limits) != 1 || d.Limits[0].Burst != 1 || d.Revision != 1 ||
		!d.Share.Known {
		t.Errorf("%+v", d)
	}
	if d := agent.decision("admitted"); d != nil {
		t.Errorf("of an admitted request the agent was told %+v", d)
	}
}

// A request that a limit has held is told with the name of the limit.
func TestDecisionOfALimitThatHolds(t *testing.T) {
	t.Parallel()
	slow := config.Tenant{Name: "acme", Weight: 1,
		Limits: []config.Limit{{Name: "slow", Rate: 20, Burst: 1, Queue: patient}}}
	e, agent := linked(t, world(1, config.Queue{}, slow))
	for range 3 {
		e.get("/", "x-tenant", "acme", "x-client", "alice", "x-request-id", "held")
	}
	e.eventually("the decision", func() bool { return agent.decision("held") != nil })
	if d := agent.decision("held"); d.Refused || d.Waited <= 0 || d.HeldBy != "slow" {
		t.Errorf("%+v", d)
	}
}

// A request that has waited is told of when its wait ends, also without an access log.
func TestDecisionAfterAWait(t *testing.T) {
	t.Parallel()
	e, agent := linked(t, world(1, patient, capped("acme", 5)),
		edit{"                  client: [", "                  access_log: 'OFF'\n                  client: ["})
	waited := ""
	for range 12 {
		if a := e.get("/", "x-tenant", "acme", "x-client", "alice"); a.header.Get("x-titrate-wait-ms") != "" {
			waited = "yes"
		}
	}
	if waited == "" {
		t.Fatal("no request has waited")
	}
	e.eventually("a decision", func() bool {
		agent.mu.Lock()
		defer agent.mu.Unlock()
		for _, d := range agent.decided {
			if d.Waited > 0 && !d.Refused && d.Request != "" && d.Share.Known && d.HeldBy == "tenant-share" {
				return true
			}
		}
		return false
	})
}
