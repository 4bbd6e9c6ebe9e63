package envoytest

import (
	"encoding/json"
	"testing"

	"github.com/titrate/titrate/control/config"
)

// A refusal has the request ID from Envoy in its body and as a header, and the agent receives the decision
// under this ID with the limit that refused. Decisions about admitted requests are not sent.
func TestDecisionByRequestID(t *testing.T) {
	t.Parallel()
	e, agent := linked(t, setup(1, config.Queue{}, limited("acme", 0.5, 1)))
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
		t.Errorf("an admitted request was reported to the agent: %+v", d)
	}
}

// The decision about a held request has the name of the limit that held it.
func TestDecisionOfALimitThatHolds(t *testing.T) {
	t.Parallel()
	slow := config.Tenant{Name: "acme", Weight: 1,
		Limits: []config.Limit{{Name: "slow", Rate: 20, Burst: 1, Queue: patient}}}
	e, agent := linked(t, setup(1, config.Queue{}, slow))
	for range 3 {
		e.get("/", "x-tenant", "acme", "x-client", "alice", "x-request-id", "held")
	}
	e.eventually("the decision", func() bool { return agent.decision("held") != nil })
	if d := agent.decision("held"); d.Refused || d.Waited <= 0 || d.HeldBy != "slow" {
		t.Errorf("%+v", d)
	}
}

// The decision about a request that has waited is sent when its wait ends, also without an access log.
func TestDecisionAfterAWait(t *testing.T) {
	t.Parallel()
	e, agent := linked(t, setup(1, patient, capped("acme", 5)),
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
