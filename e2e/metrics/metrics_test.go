package metrics

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// documented reads a document with the given rows.
func documented(t *testing.T, rows ...string) (map[string]Metric, error) {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := "| metric | kind | labels | meaning |\n|---|---|---|---|\n" + strings.Join(rows, "\n") + "\n"
	if err := os.WriteFile(filepath.Join(root, "docs", "metrics.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Documented(root)
}

const (
	things = "| `titrate_things_total` | counter | `pool`, `outcome` | Things. |"
	waits  = "| `titrate_wait_ms` | histogram | none | Waits. Only of pools with a queue. |"
	hits   = "| `titrate_rls_hits_total` | counter | none | Only hits are counted. All of them. |"
)

func TestDocumented(t *testing.T) {
	got, err := documented(t, things, waits, hits)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Metric{
		"titrate_things_total":   {"titrate_things_total", "counter", []string{"pool", "outcome"}, false},
		"titrate_wait_ms":        {"titrate_wait_ms", "histogram", nil, true},
		"titrate_rls_hits_total": {"titrate_rls_hits_total", "counter", nil, true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, err := documented(t, things, things); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a metric that is there twice: %v", err)
	}
	if _, err := documented(t); err == nil {
		t.Error("a document without metrics is no error")
	}
}

func TestQuery(t *testing.T) {
	known, err := documented(t, things, waits)
	if err != nil {
		t.Fatal(err)
	}
	q := Query{Expr: `rate(titrate_things_total{pool=~"$pool"}[$__rate_interval]) + titrate_wait_ms_bucket`}
	if got, want := q.Concrete("1m"), `rate(titrate_things_total{pool=~".*"}[1m]) + titrate_wait_ms_bucket`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if used, err := q.Metrics(known); err != nil || len(used) != 2 || used[1].Name != "titrate_wait_ms" {
		t.Errorf("%v, %v", used, err)
	}
	for _, unknown := range []string{"titrate_nothing", "titrate_things_total_bucket"} {
		if _, err := (Query{Expr: unknown}).Metrics(known); err == nil || !strings.Contains(err.Error(), unknown) {
			t.Errorf("%s: %v", unknown, err)
		}
	}
}

// One scheme of names: counters and only counters end in _total, times are in seconds and sizes in bytes.
// Envoy's histograms hold whole numbers, so the filter's histogram is in milliseconds.
func TestNames(t *testing.T) {
	const inMilliseconds = "titrate_wait_ms"
	all, err := Documented(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if m := all[inMilliseconds]; m.Kind != "histogram" {
		t.Errorf("%s is gone: docs/metrics.md and this test should not make an exception of it", inMilliseconds)
	}
	otherUnit := regexp.MustCompile(`_(ms|us|ns|millis|milliseconds|micros|minutes|hours|days|kb|mb|kib|mib|percent|ratio)\b`)
	for name, m := range all {
		name = strings.Split(strings.TrimPrefix(name, "titrate:"), ":")[0] // the metric of a recorded series
		words := strings.ReplaceAll(strings.TrimSuffix(name, "_total"), "_", " _")
		if (m.Kind == "counter") != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is a %s", name, m.Kind)
		}
		if name != inMilliseconds && otherUnit.MatchString(words) {
			t.Errorf("%s has another unit than seconds or bytes", name)
		}
		if m.Kind == "histogram" && name != inMilliseconds && !strings.HasSuffix(name, "_seconds") {
			t.Errorf("%s is a histogram without a unit", name)
		}
		if i := strings.Index(words, " _seconds"); i > 0 && i+len(" _seconds") != len(words) {
			t.Errorf("%s does not end in its unit", name)
		}
	}
}
