package coordinator_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/storetest"
)

// etcdAt starts an etcd on the data and ends it with the test.
func etcdAt(t *testing.T, dir, listen string) *storetest.Etcd {
	t.Helper()
	e, err := storetest.Start(dir, listen)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Kill)
	return e
}

// backup copies the data of an etcd that stands still.
func backup(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "backup")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// etcd goes back to a backup below a coordinator that runs: agents get the older
// configuration under a higher revision and a higher epoch, and changes arrive again.
func TestEtcdRestoredUnderACoordinator(t *testing.T) {
	etcd := etcdAt(t, t.TempDir(), "")
	r := start(t, etcd.Endpoint, "/t", "one")
	r.apply(pool("api", 300), tenant("a", 1))
	a := join(t, "x", map[string]float64{"a": 600}, r.c.Address())
	a.until(t, "is led", func() bool { return a.share("a") > 250 })
	etcd.Kill()
	older := backup(t, etcd.Dir)
	etcd = etcdAt(t, etcd.Dir, etcd.Endpoint)
	r.apply(tenant("lost", 1))
	a.until(t, "knows what will be lost", func() bool { return a.config["tenants/lost"] != nil })
	revision, obeyed := configured(a), epoch(a)

	etcd.Kill()
	etcdAt(t, older, etcd.Endpoint)
	a.until(t, "has the older configuration", func() bool {
		return a.config["tenants/lost"] == nil &&
			a.revision > revision
	})
	r.apply(tenant("new", 1))
	a.until(t, "knows what is new", func() bool {
		return a.config["tenants/new"] != nil &&
			a.leases.GetRevision() > revision
	})
	if epoch(a) < obeyed {
		t.Errorf("epoch %d after %d", epoch(a), obeyed)
	}
	if _, metrics := r.get("/metrics"); !strings.Contains(metrics, "titrate_etcd_history_lost_total 1") {
		t.Error("the metrics say nothing of it")
	}
	ready(t, r, 200, "")
}

func configured(a *agent) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.revision
}

// ready waits until readyz answers so.
func ready(t testing.TB, r *running, code int, text string) {
	t.Helper()
	for limit := time.Now().Add(deadline); ; time.Sleep(20 * time.Millisecond) {
		got, body := r.get("/readyz")
		if got == code && strings.Contains(body, text) {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("readyz: %d %s, want %d %s", got, body, code, text)
		}
	}
}

// etcd and all coordinators are new, and a clock is wrong: only the agent knows what
// was. It is the agent's word that raises the epoch and the revision.
func TestAgentsRememberWhatEtcdLost(t *testing.T) {
	etcd := etcdAt(t, t.TempDir(), "")
	r := start(t, etcd.Endpoint, "/t", "one")
	r.apply(pool("api", 300), tenant("a", 1))
	future := time.Now().Add(time.Hour).UnixMilli()
	a := join(t, "x", map[string]float64{"a": 600})
	a.note(func() { a.obeyed, a.revision = future, future })
	a.visit(t, r.c.Address())
	a.until(t, "is led by a higher epoch", func() bool {
		return a.leases.GetEpoch() > future && a.revision > future &&
			a.share("a") > 250
	})
}

// etcd and its clock go back, and another change gets the revision that an agent holds. The next
// leader must not take the agent's configuration for its own.
func TestOneRevisionOfTwoHistories(t *testing.T) {
	etcd := etcdAt(t, t.TempDir(), "")
	one := start(t, etcd.Endpoint, "/t", "one")
	one.apply(pool("api", 300), tenant("a", 1))
	a := join(t, "x", map[string]float64{"a": 600}, one.c.Address())
	a.until(t, "is led", func() bool { return a.share("a") > 250 })
	future := time.Now().Add(time.Hour).UnixMilli() // from here on the clock is behind
	if err := store.Open(etcd.Client(t), "/t/v1alpha1/").Raise(t.Context(), future); err != nil {
		t.Fatal(err)
	}
	etcd.Kill()
	older := backup(t, etcd.Dir)
	etcd = etcdAt(t, etcd.Dir, etcd.Endpoint)
	one.apply(tenant("lost", 1))
	a.until(t, "knows what will be lost", func() bool { return a.config["tenants/lost"] != nil })
	revision, whole := configured(a), 0
	a.note(func() { whole = a.whole })
	one.end()
	etcd.Kill()

	etcdAt(t, older, etcd.Endpoint)
	two := start(t, etcd.Endpoint, "/t", "two")
	two.apply(tenant("new", 1))
	a.visit(t, two.c.Address())
	a.until(t, "has the other history", func() bool {
		return a.config["tenants/new"] != nil && a.config["tenants/lost"] == nil && len(a.config) == 3
	})
	if a.until(t, "was sent the whole", func() bool { return a.whole == whole+1 }); configured(a) != revision {
		t.Errorf("revision %d and %d: this test means them to be equal", revision, configured(a))
	}
}

// The whole of etcd is gone and so are the coordinators that knew: agents keep what
// they have, and the coordinator says so, until somebody recovers it.
func TestEmptyEtcdTakesNoLimitsAway(t *testing.T) {
	first := etcdAt(t, t.TempDir(), "")
	one := start(t, first.Endpoint, "/t", "one")
	one.apply(pool("api", 300), tenant("a", 1))
	a := join(t, "x", map[string]float64{"a": 600}, one.c.Address())
	a.until(t, "is led", func() bool { return a.share("a") > 250 })
	revision, obeyed := configured(a), epoch(a)
	one.end()
	first.Kill()

	second := etcdAt(t, t.TempDir(), "")
	a.note(func() { a.seed = 0 }) // a new etcd has a new seed of key hashes
	two := start(t, second.Endpoint, "/t", "two")
	a.visit(t, two.c.Address())
	ready(t, two, 503, "titrate recover")
	if _, err := two.quota().Apply(t.Context(),
		&quotav1.ApplyRequest{Resources: []*quotav1.Resource{tenant("b", 1)}}); err == nil ||
		!strings.Contains(err.Error(), "titrate recover") {
		t.Errorf("apply: %v", err)
	}
	if got := configured(a); got != revision || a.config["pools/api"] == nil {
		t.Errorf("the agent was given revision %d for %d", got, revision)
	}
	s := store.Open(second.Client(t), "/t/v1alpha1/")
	put := []*quotav1.Resource{pool("api", 200), tenant("a", 1)}
	if _, err := s.Replace(t.Context(), store.Note{}, put, 0); err != nil {
		t.Fatal(err)
	}
	a.until(t, "is led again", func() bool {
		return a.revision > revision && a.leases.GetEpoch() > obeyed &&
			near(a.share("a"), 200)
	})
	ready(t, two, 200, "")
}

// Somebody deletes everything of Titrate in etcd while a coordinator leads.
func TestADeletedPrefixTakesNoLimitsAway(t *testing.T) {
	etcd, prefix := storetest.Shared(t), strings.TrimSuffix(storetest.Prefix(t), "/")
	client := etcd.Client(t)
	r := start(t, etcd.Endpoint, prefix, "one")
	r.apply(pool("api", 300), tenant("a", 1))
	a := join(t, "x", map[string]float64{"a": 600}, r.c.Address())
	a.until(t, "is led", func() bool { return a.share("a") > 250 })
	obeyed := epoch(a)
	if _, err := client.Delete(t.Context(), prefix, clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	ready(t, r, 503, "titrate recover")
	a.until(t, "is led on, by a higher epoch",
		func() bool { return a.leases.GetEpoch() > obeyed && a.share("a") > 250 })
	if _, err := store.Open(client, prefix+"/v1alpha1/").Accept(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	a.until(t, "has the empty configuration that was accepted", func() bool { return len(a.config) == 0 })
	ready(t, r, 200, "")
}

// Without agents there are no shares, however long ago the election was: the answer says what is missing.
func TestWhyWithoutAgents(t *testing.T) {
	r := start(t, storetest.Shared(t).Endpoint, strings.TrimSuffix(storetest.Prefix(t), "/"), "one")
	r.apply(pool("api", 300), tenant("a", 1))
	ready(t, r, 200, "")
	_, err := r.quota().Why(t.Context(), &quotav1.WhyRequest{Tenant: "tenants/a"})
	for limit := time.Now().Add(deadline); err != nil && strings.Contains(err.Error(), "does not lead") &&
		time.Now().Before(limit); time.Sleep(20 * time.Millisecond) { // also a coordinator that does not lead is ready
		_, err = r.quota().Why(t.Context(), &quotav1.WhyRequest{Tenant: "tenants/a"})
	}
	if err == nil || !strings.Contains(err.Error(), "no agent is connected") {
		t.Errorf("why: %v", err)
	}
}
