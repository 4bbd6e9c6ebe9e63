package process

import "testing"

// TestWorld breaks one installation in every way that it must survive, one after
// the other: what a test leaves behind would show in the next.
func TestWorld(t *testing.T) {
	w := newSystem(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"documents refused", w.documentsRefused},
		{"upstream of unknown capacity", w.upstreamOfUnknownCapacity},
		{"quota moves", w.quotaMoves},
		{"identities travel", w.identitiesTravel},
		{"exact limit over all gateways", w.exactOverAllGateways},
		{"requests in flight over all gateways", w.inFlightOverAllGateways},
		{"calendar quota over all gateways", w.quotaOverAllGateways},
		{"trace of a change", w.traceOfAChange},
		{"trace of held requests", w.traceOfHeldRequests},
		{"why names the limit", w.whyNamesTheLimit},
		{"clients leave while held", w.abortWhileHeld},
		{"strangers on the link", w.strangersOnTheLink},
		{"agent paused", w.agentPaused},
		{"agent killed", w.agentKilled},
		{"coordinator killed", w.coordinatorKilled},
		{"etcd stopped", w.etcdStopped},
		{"Envoy restarted plainly", w.restarted},
		{"Envoy told to end", w.termWhileHeld},
	} {
		t.Run(test.name, func(t *testing.T) {
			w.sandbox.t = t // whose helpers report
			test.run(t)
			w.healthy(t)
		})
		w.sandbox.t = t
	}
}
