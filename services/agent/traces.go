package agent

import (
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/titrate/titrate/proto/link"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/telemetry"
)

// changeTraces adds this agent's spans to the trace of the latest change: putting it in force, the
// first leases with it, and when each gateway has it in force.
type changeTraces struct {
	sender *telemetry.Traces // nil: nothing is sent

	mu       sync.Mutex
	change   telemetry.Change // Revision 0: none
	inForce  time.Time        // here
	leases   bool             // leases with it have come
	gateways map[string]bool  // that have it in force
}

// configured says that a configuration is in force; began is when its last part came. A whole one
// is what the agent lacked, and no change of now.
func (t *changeTraces) configured(m *controlv1.Configuration, began time.Time) {
	if t.sender == nil || m.GetFull() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.change = telemetry.Change{Seed: m.GetSeed(), Revision: m.GetRevision()}
	t.inForce, t.leases, t.gateways = time.Now(), false, map[string]bool{}
	t.sender.Step(t.change, "agent puts change in force", began, t.inForce)
}

// leased says that leases are in force which were computed from a revision.
func (t *changeTraces) leased(revision int64) {
	if t.sender == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.change.Revision > 0 && !t.leases && revision >= t.change.Revision {
		t.leases = true
		t.sender.Step(t.change, "first leases with change", t.inForce, time.Now())
	}
}

// heard takes a message from a gateway.
func (t *changeTraces) heard(gateway string, m link.Message) {
	if t.sender == nil {
		return
	}
	beat, is := m.(*link.Heartbeat)
	if !is {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.change.Revision > 0 && beat.Revision == t.change.Revision && !t.gateways[gateway] {
		t.gateways[gateway] = true
		t.sender.Step(t.change, "gateway puts change in force", t.inForce, time.Now(),
			attribute.String("titrate.gateway", gateway))
	}
}
