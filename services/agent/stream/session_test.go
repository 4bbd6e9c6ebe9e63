package stream

import (
	"testing"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
)

// A report that says nothing new is left out, but for one in most.
func TestReportsThatSayNothing(t *testing.T) {
	flow := []*controlv1.FlowReport{{Tenant: "a", Pool: "api", Demand: 1}}
	at := []*controlv1.Replica{{Name: "gw", Weight: 1}}
	r := reporter{most: 4}
	for i, c := range []struct {
		m    *controlv1.Report
		sent bool
	}{
		{&controlv1.Report{Replicas: at}, true}, // the first
		{&controlv1.Report{Replicas: at}, false},
		{&controlv1.Report{Replicas: at}, false},
		{&controlv1.Report{Replicas: at}, false},
		{&controlv1.Report{Replicas: at}, true}, // the coordinator is to know that the agent lives
		{&controlv1.Report{Replicas: at}, false},
		{&controlv1.Report{Replicas: at, Flows: flow}, true},
		{&controlv1.Report{Replicas: at}, true}, // the flow has ended
		{&controlv1.Report{Replicas: at}, false},
		{&controlv1.Report{}, true}, // the gateway has gone
		{&controlv1.Report{}, false},
		{&controlv1.Report{State: &controlv1.State{Exact: true}}, true},
		{&controlv1.Report{}, false},
		{&controlv1.Report{Pools: []*controlv1.PoolLease{{Pool: "api"}}}, true},
		{&controlv1.Report{Changes: true}, true}, // each of these counts time
		{&controlv1.Report{Changes: true}, true},
	} {
		if got := r.next(c.m); (got != nil) != c.sent {
			t.Errorf("report %d: %v, sent: %v", i, c.m, got != nil)
		}
	}
	if got := r.number(&controlv1.Report{}).GetReport().GetSeq(); got != 10 {
		t.Errorf("the last report has number %d, want 10", got)
	}
}
