package coordinator_test

import (
	"regexp"
	"strconv"
	"testing"
	"time"
)

// metric is the value of a series at the coordinator's page of metrics, -1 if it is not there.
func (r *running) metric(series string) float64 {
	r.t.Helper()
	_, page := r.get("/metrics")
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(page)
	if found == nil {
		return -1
	}
	v, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		r.t.Fatalf("%s: %v", series, err)
	}
	return v
}

// untilMetric waits until a series has at least the value.
func (r *running) untilMetric(series string, least float64) {
	r.t.Helper()
	for limit := time.Now().Add(deadline); r.metric(series) < least; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			r.t.Fatalf("%s is %v, want %v", series, r.metric(series), least)
		}
	}
}

// Calls to etcd, elections and the watch are counted: while all is well, while etcd is away, and when it
// comes back with an older history.
func TestMetricsOfEtcd(t *testing.T) {
	const (
		won, lost      = `titrate_elections_total{outcome="won"}`, `titrate_elections_total{outcome="lost"}`
		resumed, whole = `titrate_etcd_watch_resets_total{how="resumed"}`, `titrate_etcd_watch_resets_total{how="whole"}`
		revision       = "titrate_configuration_revision"
	)
	calls := func(method, code string) string {
		return `titrate_etcd_call_duration_seconds_count{code="` + code + `",method="` + method + `"}`
	}
	etcd := etcdAt(t, t.TempDir(), "")
	r := start(t, etcd.Endpoint, "/t", "one")
	r.apply(pool("api", 300), tenant("a", 1))
	r.untilMetric(won, 1)
	for _, method := range []string{"Range", "Txn", "LeaseGrant"} {
		r.untilMetric(calls(method, "OK"), 1)
	}
	for _, series := range []string{lost, resumed, whole} {
		if got := r.metric(series); got != 0 {
			t.Errorf("%s is %v while all is well", series, got)
		}
	}
	r.untilMetric(revision, 1)
	known := r.metric(revision)
	etcd.Kill()
	older := backup(t, etcd.Dir)
	etcd = etcdAt(t, etcd.Dir, etcd.Endpoint)
	r.apply(tenant("b", 1))
	r.untilMetric(revision, known+1) // what the watch has not delivered is not missed
	etcd.Kill()
	r.untilMetric(calls("Range", "DeadlineExceeded"), 1)
	r.untilMetric(lost, 1)
	before := r.metric(won)
	etcdAt(t, older, etcd.Endpoint)
	r.untilMetric(won, before+1)
	r.untilMetric(whole, 1)
}
