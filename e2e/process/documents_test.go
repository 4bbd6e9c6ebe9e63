package process

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// resources is everything that is configured.
func (w *system) resources(t *testing.T) string {
	t.Helper()
	status, out, complaint := w.bin.run(t, "", "export", "--server", w.API())
	if status != 0 {
		t.Fatalf("titrate export: exit status %d: %s", status, complaint)
	}
	return out
}

// badDocuments are refused whole; each comes after a good one in the same file.
// The complaint names the field or the resource.
var badDocuments = []struct{ name, text, names string }{
	{"not YAML", "kind: [", "<stdin>"},
	{"an unknown kind", "{apiVersion: titrate.dev/v1alpha1, kind: Poool, name: pools/x, spec: {capacity: 1}}", "kind"},
	{"another version", "{apiVersion: titrate.dev/v9, kind: Pool, name: pools/x, spec: {capacity: 1}}", "apiVersion"},
	{"an unknown field", "{apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/x, spec: {capacity: 1, capcity: " +
		"2}}", "capcity"},
	{"a wrong type", "{apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/x, spec: {capacity: many}}",
		"capacity"},
	{"a negative capacity", "{apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/x, spec: {capacity: -1}}",
		"capacity"},
	{"not a number", "{apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/x, spec: {capacity: .nan}}",
		"capacity"},
	{"a bad name", "{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/UPPER CASE, spec: {weight: 1}}",
		"name"},
	{"a wait beyond the range", "{apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/x, spec: {capacity: 1, " +
		"queue: {maxWait: 2h}}}", "maxWait"},
	{"a quota of a pool that is not there",
		"{apiVersion: titrate.dev/v1alpha1, kind: Quota, name: tenants/fed/quotas/nowhere, spec: {max: 1}}", "nowhere"},
	{"a limit of a tenant that is not there",
		"{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/ghost/limits/x, spec: {rate: 1/s, burst: 1}}",
		"ghost"},
	{"a guarantee beyond the max",
		"{apiVersion: titrate.dev/v1alpha1, kind: Quota, name: tenants/fed/quotas/api, spec: {guaranteed: 9, max: 3}}",
		"guaranteed"},
	{"a rate without a time", "{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/fed/limits/x, spec: " +
		"{rate: soon, burst: 1}}", "rate"},
	{"the same resource twice", tenant("twice", 1) + "---\n" + tenant("twice", 2), "twice"},
	{"an etag that is not the present one",
		"{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/fed, spec: {weight: 9}, etag: '1'}", "fed"},
}

// documentsRefused: after a mistake in one document, none of the documents is applied.
func (w *system) documentsRefused(t *testing.T) {
	before, revision := w.resources(t), w.filter(0, "titrate_config_revision")
	for _, bad := range badDocuments {
		text := tenant("innocent", 1) + "---\n" + bad.text
		status, out, complaint := w.bin.run(t, text, "apply", "--server", w.API(), "-f", "-")
		if status != 1 && status != 2 || !strings.Contains(complaint, bad.names) ||
			!strings.Contains(complaint, "nothing was applied") {
			t.Errorf("%s: exit status %d, want 1 and a complaint that names %q and says that nothing was applied:\n"+
				"%s%s", bad.name, status, bad.names, out, complaint)
		}
	}
	if after := w.resources(t); after != before {
		t.Errorf("something was applied. Before:\n%s\nafter:\n%s", before, after)
	}
	if now := w.filter(0, "titrate_config_revision"); now != revision {
		t.Errorf("revision %v is in force, before %v", now, revision)
	}
}

// movedLater bounds the way of most changes to a gateway. The promise is a second;
// the rest is for a machine that does other things as well, and so may one round be.
const movedLater = 3 * time.Second

// quotaMoves: requests that wait for a small quota go when it becomes large, on
// every gateway, and what comes after a cut waits again. No Envoy is reloaded.
func (w *system) quotaMoves(t *testing.T) {
	const rounds, waiting = 3, 8
	w.apply(tenant("moved", 1) + "---\n" + quota("moved", 8))
	w.linked(t, patience, 0)
	was := w.unmoved()
	var raised, cut []float64
	for range rounds {
		answers := w.flood(t.Context(), waiting, "moved", w.fronts...)
		w.holding(t, waiting/3, 0, 1)
		w.apply(quota("moved", 200))
		began := time.Now()
		for a := range answers {
			if a.err != nil || a.status != http.StatusOK {
				t.Errorf("a request that waited for its quota: status %d, %v", a.status, a.err)
			}
		}
		raised = append(raised, time.Since(began).Seconds())
		w.apply(quota("moved", 8))
		began = time.Now()
		rest, obeyed := w.heldAgain(t)
		cut = append(cut, obeyed.Sub(began).Seconds())
		w.apply(quota("moved", 200)) // lets go what was left waiting
		for _, answers := range rest {
			for range answers {
			}
		}
		w.apply(quota("moved", 8))
		w.linked(t, patience, 0)
	}
	t.Logf("from apply's return, s: until the last of %d waiting requests had its answer after a raise %.3f; until "+
		"the first request waited after a cut %.3f", 2*waiting, raised, cut)
	for name, took := range map[string][]float64{"raise": raised, "cut": cut} {
		slices.Sort(took)
		if median := took[rounds/2]; median > movedLater.Seconds() {
			t.Errorf("a %s took %.2f s (median), want at most %v", name, median, movedLater)
		}
	}
	if now := w.unmoved(); now != was {
		t.Errorf("an Envoy was reloaded or its link lost: %s, before %s", now, was)
	}
}

// atOnce is longer than a request without a wait, even on a slow machine, and shorter than a wait for a quota
// of 8/s.
const atOnce = 100 * time.Millisecond

// heldAgain sends requests to all gateways in rounds until one request waits at each gateway. It returns the
// waiting requests, and the time at which the last was sent.
func (w *system) heldAgain(t *testing.T) (waiting []<-chan answer, sent time.Time) {
	t.Helper()
	pass := slices.Clone(w.fronts) // where requests still pass at once
	eventually(t, "a request waits at every gateway", patience, func() string {
		now := time.Now()
		var answers []<-chan answer
		for _, url := range pass {
			answers = append(answers, w.flood(t.Context(), 1, "moved", url))
		}
		var still []string
		late := time.After(atOnce)
		for i, url := range pass {
			select {
			case <-answers[i]:
				still = append(still, url)
			case <-late:
				waiting, sent = append(waiting, answers[i]), now
				late = time.After(0)
			}
		}
		pass = still
		return unless(len(pass) == 0, fmt.Sprintf("all pass at once at %v", pass))
	})
	return waiting, sent
}

func quota(tenant string, max float64) string {
	return fmt.Sprintf("{apiVersion: titrate.dev/v1alpha1, kind: Quota, name: tenants/%s/quotas/api, spec: {max: "+
		"%v}}\n", tenant, max)
}

// unmoved returns the state that a reload or a lost link would change.
func (w *system) unmoved() string {
	var all []string
	for i := range w.admins {
		stats := w.admins[i] + "/stats/prometheus"
		all = append(all, fmt.Sprintf("gateway %d: pid %d, %v listeners made, %v modified, %v links",
			i+1, w.Gateways[i].Process().PID(), w.metric(stats, "envoy_listener_manager_listener_create_success", ""),
			w.metric(stats, "envoy_listener_manager_listener_modified", ""),
			w.filter(i, "titrate_link_sessions_total")))
	}
	return strings.Join(all, "; ")
}
