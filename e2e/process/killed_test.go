package process

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// agentKilled: without its agent a gateway goes on with what it last knew; a new
// agent finds its orders again, and the filter finds it.
func (w *system) agentKilled(t *testing.T) {
	revision, epoch := w.filter(0, "titrate_config_revision"), w.filter(0, "titrate_shares_epoch")
	sessions := w.filter(0, "titrate_link_sessions_total")
	load := w.begin(t)
	killed := time.Now()
	w.Gateways[0].Agent.Kill()
	eventually(t, "the filter sees that its agent is gone", patience, func() string {
		return unless(w.filter(0, "titrate_link_connected") == 0, "still connected")
	})
	load.pass(t, 1)
	if now := w.filter(0, "titrate_config_revision"); now != revision {
		t.Errorf("without an agent the filter's configuration is revision %v, it was %v", now, revision)
	}
	back := time.Now()
	w.start(w.Gateways[0].Agent)
	w.linked(t, patience, epoch-1)
	away := time.Since(killed).Seconds()
	t.Logf("linked, configured and leased %.2f s after the agent's start", time.Since(back).Seconds())
	if n := w.filter(0, "titrate_link_sessions_total"); n != sessions+1 {
		t.Errorf("%v sessions of the link, want one more than %v", n, sessions)
	}
	// Without its agent a gateway is a side of its own (docs/guarantees.md, a gateway's agent). Mostly its ledger goes
	// on with what the others claimed last, and both sides admit some 24 more. Once both admitted all of the rate. The
	// new agent starts its count again, which may charge spent cost a second time.
	load.pass(t, 1)
	load.end(t, allowance{more: thirtyRate * max(1, away), less: thirtyBurst})
}

// coordinatorKilled: the shares hold. The new coordinator has a higher epoch, grants leases again, and
// recognises a change that is repeated with its ID.
func (w *system) coordinatorKilled(t *testing.T) {
	epoch := w.filter(0, "titrate_shares_epoch")
	again := w.repeatable(t)
	again()
	load := w.begin(t)
	w.Coordinators[0].Kill()
	load.pass(t, 1)
	for i := range w.admins {
		if now := w.filter(i, "titrate_shares_epoch"); now != epoch {
			t.Errorf("without a coordinator the shares of gateway %d are of epoch %v, they were of %v", i+1, now, epoch)
		}
	}
	back := time.Now()
	w.start(w.Coordinators[0].Server)
	w.linked(t, patience, epoch)
	t.Logf("shares of epoch %v after %v, %.2f s after the coordinator's start", w.filter(0, "titrate_shares_epoch"),
		epoch, time.Since(back).Seconds())
	again()
	load.pass(t, 1)
	load.end(t, allowance{})
}

// refusedWithin: titrate asks again for its --timeout of 5 s.
const refusedWithin = 7 * time.Second

// etcdStopped: no request notices that the store is gone. A change during this time gets an error, and succeeds
// when the store is back.
func (w *system) etcdStopped(t *testing.T) {
	load := w.begin(t)
	w.Etcd.Kill()
	asked := time.Now()
	status, said := w.tryApply(tenant("absent", 2))
	took := time.Since(asked)
	t.Logf("without etcd, titrate apply ended with status %d after %.2f s: %s", status, took.Seconds(), said)
	if status != 1 || took > refusedWithin || !strings.Contains(said, "etcd") {
		t.Errorf("want exit status 1 within %v, and etcd named as what is away", refusedWithin)
	}
	w.start(w.Etcd)
	back := time.Now()
	eventually(t, "a change is taken again", patience, func() string {
		status, said := w.tryApply(tenant("back", 2))
		return unless(status == 0, said)
	})
	applied := time.Now()
	w.inForce(t, patience)
	t.Logf("a change was taken %.2f s after etcd's return, and was in force %.2f s later", applied.Sub(back).Seconds(),
		time.Since(applied).Seconds())
	w.linked(t, patience, 0)
	load.end(t, allowance{})
}

// tenant is a document of a tenant.
func tenant(name string, weight int) string {
	return fmt.Sprintf("{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/%s, spec: {weight: %d}}\n", name,
		weight)
}

// unless returns "" if fine, else why, as eventually needs it.
func unless(fine bool, why string) string {
	if fine {
		return ""
	}
	return why
}
