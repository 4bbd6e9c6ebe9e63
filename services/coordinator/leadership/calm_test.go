package leadership

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
)

// While nobody asks for anything rounds may be rare, whatever agents report. What may change a share says so
// at once.
func TestCalm(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	l := New(Options{Params: allocation.Defaults(), Expiry: time.Second})
	config := func(revision int64) *allocation.Config {
		return &allocation.Config{Revision: revision, Tenants: map[string]float64{"a": 1},
			Pools: []allocation.Pool{{Name: "api", Capacity: 100}}}
	}
	l.Begin(now, 1, false)
	l.Configure(config(1))
	report := func(agent, gateway string, flows ...*controlv1.FlowReport) {
		l.Report(now, agent, &controlv1.Report{Interval: durationpb.New(250 * time.Millisecond), Flows: flows,
			Replicas: []*controlv1.Replica{{Name: gateway, Weight: 1}}})
	}
	stirred := func() bool {
		select {
		case <-l.Stirred():
			return true
		default:
			return false
		}
	}
	settle := func() {
		t.Helper()
		for range 40 {
			now = now.Add(250 * time.Millisecond)
			report("x", "gw-x")
			if l.Step(now); l.Calm() {
				return
			}
		}
		t.Fatal("not calm 10 s after the last request")
	}
	if l.Step(now); l.Calm() {
		t.Error("calm without an agent")
	}
	l.Hello(now, &controlv1.Hello{Agent: "x"})
	settle()
	if report("x", "gw-x"); stirred() || !l.Calm() {
		t.Error("stirred by a report that says nothing")
	}
	for what, do := range map[string]func(){
		"a request": func() {
			report("x", "gw-x", &controlv1.FlowReport{Tenant: "a", Pool: "api", Gateway: "gw-x", Demand: 5, Served: 5})
		},
		"another gateway": func() { report("x", "gw-y") },
		"another agent":   func() { l.Hello(now, &controlv1.Hello{Agent: "y"}) },
	} {
		settle()
		do()
		if !stirred() {
			t.Errorf("not stirred by %s", what)
		}
		if l.Step(now); what == "a request" && l.Calm() {
			t.Error("calm right after a request")
		}
	}
	settle()
	if l.Configure(config(2)); l.Calm() {
		t.Error("calm with a configuration that no round has seen")
	}
}
