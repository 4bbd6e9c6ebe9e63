package stream

import (
	"testing"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
)

// Reports that say nothing are left out, but for one in most, once the coordinator has forgotten what the
// gateways asked for.
func TestReportsThatSayNothing(t *testing.T) {
	at := []*controlv1.Replica{{Name: "gw", Weight: 1}}
	nothing := func() *controlv1.Report { return &controlv1.Report{Replicas: at} }
	for what, news := range map[string]*controlv1.Report{
		"a request":                {Replicas: at, Flows: []*controlv1.FlowReport{{Tenant: "a", Pool: "api", Demand: 1}}},
		"a gateway has gone":       {},
		"leases of a pool":         {Replicas: at, Pools: []*controlv1.PoolLease{{Pool: "api"}}},
		"flows that go on":         {Replicas: at, Changes: true},
		"nothing, but it is first": nil,
	} {
		r, sent := reporter{most: 4}, 0
		if news != nil {
			for range 2 * quietAfter {
				r.next(nothing())
			}
			if r.next(news) == nil {
				t.Errorf("%s: left out", what)
			}
		}
		for r.next(nothing()) != nil {
			sent++
		}
		if sent < quietAfter || sent > quietAfter+1 {
			t.Errorf("%s: %d more reports are sent, want %d or one more", what, sent, quietAfter)
		}
		for i, want := range []bool{false, false, true, false, false, false, true} { // it lives
			if got := r.next(nothing()) != nil; got != want {
				t.Errorf("%s: report %d after that: sent: %v", what, i, got)
			}
		}
		state := r.next(&controlv1.Report{Replicas: at, State: &controlv1.State{Exact: true}})
		if state == nil || r.next(nothing()) != nil { // the way to other agents changes each few seconds
			t.Errorf("%s: a state is left out, or what comes after it is not", what)
		}
	}
}
