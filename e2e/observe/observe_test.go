package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/e2e/metrics"
	"github.com/titrate/titrate/lab/installation"
)

const root = "../.."

// patience is the longest wait for figures that a sound installation has within seconds.
const patience = 90 * time.Second

// prometheus is the Prometheus of a running installation.
type prometheus struct {
	*system
	documented map[string]metrics.Metric
}

// TestScrape runs an installation as it is shipped, and checks the series that a real Prometheus gets.
func TestScrape(t *testing.T) {
	p := prometheus{system: running(t)}
	var err error
	if p.documented, err = metrics.Documented(root); err != nil {
		t.Fatal(err)
	}
	t.Run("every target is up", p.targetsUp)
	t.Run("metrics are as documented", p.metricsDocumented)
	t.Run("dashboards show something", p.dashboardsShow)
	t.Run("rules can be evaluated", p.rulesEvaluated)
	t.Run("an alert fires and ends", p.alertFires)
}

// TestObserve: the command prints the addresses, and leaves no file behind.
func TestObserve(t *testing.T) {
	var out strings.Builder
	if err := observe(t.Context(), root, needed(t).Envoy, time.Second, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	dir := regexp.MustCompile(`/tmp/titrate-observe-\w+`).FindString(out.String())
	if _, err := os.Stat(dir); dir == "" || !os.IsNotExist(err) {
		t.Errorf("directory %q is left behind: %v", dir, err)
	}
	if !regexp.MustCompile(`ready\. Prometheus: http://127\.0\.0\.1:\d+\n`).MatchString(out.String()) {
		t.Errorf("no address of Prometheus:\n%s", &out)
	}
}

// needed are the files that an installation needs; without them the test is skipped, with
// TITRATE_E2E=1 it fails.
func needed(t *testing.T) options {
	t.Helper()
	envoy := os.Getenv("ENVOY_BIN")
	if cache, err := os.UserCacheDir(); envoy == "" && err == nil {
		envoy = filepath.Join(cache, "titrate", "envoy-"+installation.EnvoyVersion, "envoy")
	}
	o, err := find(root, envoy)
	if err != nil && os.Getenv("TITRATE_E2E") == "1" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
	return o
}

// running is an installation under load.
func running(t *testing.T) *system {
	t.Helper()
	o := needed(t)
	dir, err := os.MkdirTemp("/tmp", "titrate-observe-") // short: sockets lie in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ctx, fail := context.WithCancelCause(context.Background())
	in, err := newSystem(o, dir, fail)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := reason(ctx, nil); err != nil {
			t.Error(err)
		}
		if err := in.stop(); err != nil {
			t.Error(err)
		}
	})
	if err := in.start(ctx); err != nil {
		t.Fatal(reason(ctx, err))
	}
	return in
}

// eventually polls until done returns "", and fails with its last text.
func eventually(t *testing.T, done func() string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(500 * time.Millisecond) {
		why := done()
		if why == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, why)
		}
	}
}

// ask reads an answer of Prometheus' API.
func (p prometheus) ask(t *testing.T, path string, into any) {
	t.Helper()
	text, err := p.Get(t.Context(), "http://"+p.prometheus+"/api/v1/"+path)
	if err == nil {
		err = json.Unmarshal([]byte(text), &struct{ Data any }{into})
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// series is one of a query's result, with its value now.
type series struct {
	Metric map[string]string
	Value  [2]any
}

func (p prometheus) query(t *testing.T, query string) []series {
	t.Helper()
	var got struct{ Result []series }
	p.ask(t, "query?query="+url.QueryEscape(query), &got)
	return got.Result
}

func (p prometheus) targetsUp(t *testing.T) {
	want := 2 + 2*gateways
	eventually(t, func() string {
		up := p.query(t, "up == 1")
		if len(up) == want {
			return ""
		}
		return fmt.Sprintf("%d of %d targets are up: %v, all: %v", len(up), want, up, p.query(t, "up"))
	})
}

// general are the labels that Prometheus adds, and of a histogram's buckets.
var general = []string{"__name__", "instance", "job", "le"}

// lacks reports whether the installation cannot have a metric. It has no rate limit service, no API over HTTP,
// no sites, no limit with plans or requested rates, no audit log, no operator, no calendar quota and no webhook. It has
// no traffic to its adaptive pool, no limit that asks about too many keys, no cost of usage, and no agent that sends
// wrong messages.
func (p prometheus) lacks(name string) bool {
	return p.documented[name].Conditional && (name == "titrate_pool_in_flight" ||
		name == "titrate_agent_limit_unasked_total" || name == "titrate_response_usage_total" ||
		name == "titrate_calendar_quota_used" || strings.HasPrefix(name, "titrate_usage_events_") ||
		strings.HasPrefix(name, "titrate_audit_") ||
		name == "titrate_plan_default_total" || name == "titrate_requested_rate_not_taken_total" || strings.HasPrefix(name, "titrate_agent_site_") ||
		strings.HasPrefix(name, "titrate_site_") ||
		strings.HasPrefix(name, "titrate_rls_") || strings.HasPrefix(name, "titrate_rlqs_") || strings.HasPrefix(name, "titrate_rest_") ||
		strings.HasPrefix(name, "titrate_operator_") || strings.HasPrefix(name, "titrate_report_"))
}

func (p prometheus) metricsDocumented(t *testing.T) {
	eventually(t, func() string {
		there := map[string]bool{}
		for _, s := range p.query(t, `group by (__name__) ({__name__=~"titrate[_:].+"})`) {
			there[metrics.Base(s.Metric["__name__"], p.documented)] = true
		}
		var missing []string
		for name := range p.documented {
			if !there[name] && !p.lacks(name) {
				missing = append(missing, name)
			}
		}
		slices.Sort(missing)
		return strings.Join(missing, " ")
	})
	for _, s := range p.query(t, `{__name__=~"titrate[_:].+"}`) {
		name := metrics.Base(s.Metric["__name__"], p.documented)
		m, known := p.documented[name]
		if !known {
			t.Errorf("docs/metrics.md has no %s", name)
		}
		for label := range s.Metric {
			if known && !slices.Contains(m.Labels, label) && !slices.Contains(general, label) {
				t.Errorf("%s has the label %s, in docs/metrics.md it has %v", name, label, m.Labels)
			}
		}
	}
	var said map[string][]struct{ Type, Help string }
	p.ask(t, "metadata", &said)
	for name, m := range p.documented {
		for _, is := range said[name] {
			if is.Type != m.Kind {
				t.Errorf("%s is a %s, in docs/metrics.md it is a %s", name, is.Type, m.Kind)
			}
		}
	}
}

// dashboardsShow: each query has a result, unless it is about a metric that appears under a condition.
func (p prometheus) dashboardsShow(t *testing.T) {
	queries, err := metrics.Queries(root)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		var empty []string
		for _, q := range queries {
			used, err := q.Metrics(p.documented)
			if err != nil {
				t.Fatal(err)
			}
			conditional := slices.ContainsFunc(used, func(m metrics.Metric) bool { return m.Conditional })
			if len(p.query(t, q.Concrete("20s"))) == 0 && !conditional {
				empty = append(empty, q.Where()+": "+q.Expr)
			}
		}
		return strings.Join(empty, "\n")
	})
}

// rulesEvaluated: no alert's expression fails on the running system's series, and no alert fires.
func (p prometheus) rulesEvaluated(t *testing.T) {
	eventually(t, func() string {
		var got struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError, State string }
			}
		}
		p.ask(t, "rules", &got)
		rules, wrong := 0, ""
		for _, g := range got.Groups {
			for _, r := range g.Rules {
				rules++
				if r.Health != "ok" || r.State == "firing" {
					wrong += fmt.Sprintf("%s: %s, %s %s\n", r.Name, r.State, r.Health, r.LastError)
				}
			}
		}
		if rules == 0 {
			return "Prometheus has no rules"
		}
		return wrong
	})
}

// firing reports whether an alert fires.
func (p prometheus) firing(t *testing.T, name string) bool {
	t.Helper()
	return len(p.query(t, fmt.Sprintf(`ALERTS{alertname=%q,alertstate="firing"}`, name))) > 0
}

// alertFires: without a coordinator TitrateNoLeader fires, and no longer when it is back.
func (p prometheus) alertFires(t *testing.T) {
	const name = "TitrateNoLeader"
	if p.firing(t, name) {
		t.Fatalf("%s fires already", name)
	}
	p.Coordinators[0].Kill()
	eventually(t, func() string {
		if p.firing(t, name) {
			return ""
		}
		return name + " does not fire although there is no coordinator"
	})
	if err := p.Coordinators[0].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if !p.firing(t, name) {
			return ""
		}
		return name + " fires on although the coordinator leads again"
	})
}
