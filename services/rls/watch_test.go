package rls

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// At its start, and after a change, the server says how many limits are in force and which count in another way than
// in ratelimit. A directory without a file is an error at the start, and a change that is refused later.
func TestFilesAreReported(t *testing.T) {
	for _, c := range []struct {
		windows Windows
		want    string
	}{{Sliding, "limits=6 buckets=4"}, {Fixed, "limits=6 buckets=0"}} {
		var log bytes.Buffer
		o := Options{Dir: t.TempDir(), Name: "gw", Log: slog.New(slog.NewTextHandler(&log, nil)), Windows: c.windows}
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), "has no file, so there is no limit") {
			t.Errorf("%s, an empty directory: %v", c.windows, err)
		}
		file := filepath.Join(o.Dir, "shop") // as a ConfigMap names it
		if err := os.WriteFile(file, []byte(shop), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		where := file + ":4: shop.tenant"
		if !strings.Contains(log.String(), c.want) || strings.Contains(log.String(), where) != (c.windows == Sliding) {
			t.Errorf("%s: without %s:\n%s", c.windows, c.want, log.String())
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		s.watch.look()
		if got := s.Stats(); got.Limits != 6 || !strings.Contains(got.FilesTrouble, "has no file, so there is no limit") {
			t.Errorf("%s, all files gone: %d limits in force, trouble %q", c.windows, got.Limits, got.FilesTrouble)
		}
	}
}

// A limit of the files that is changed while a client uses it follows the rule of all limits. What was left stays in
// proportion, a raise admits the difference, and a client owes at most an empty bucket.
func TestLimitOfAFileChangedInUse(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		from, to    string
		spent, left uint64
		passes      time.Duration // an empty bucket
	}{
		{"day, requests_per_unit: 1000", "day, requests_per_unit: 60", 900, 6, day / 60},
		{"day, requests_per_unit: 1000", "day, requests_per_unit: 60", 1000, 0, day / 60},
		{"week, requests_per_unit: 2000", "month, requests_per_unit: 5", 50, 4, 6 * day},
		{"week, requests_per_unit: 2000", "month, requests_per_unit: 5", 2000, 0, 6 * day},
		{"day, requests_per_unit: 60", "day, requests_per_unit: 600", 60, 540, day / 600},
		{"month, requests_per_unit: 60", "day, requests_per_unit: 60", 20, 40, day / 60},
	} {
		file := func(limit string) string {
			return fmt.Sprintf("domain: shop\ndescriptors:\n  - {key: tenant, rate_limit: {unit: %s}}\n", limit)
		}
		s := newServer(t, file(c.from), Options{StopOverLimit: true})
		if got := ask(t, s, "shop", withHits("tenant=a", c.spent)); got.GetOverallCode() != api.RateLimitResponse_OK {
			t.Fatalf("%s: %v", c.from, got)
		}
		write(t, s.o.Dir, file(c.to))
		s.watch.look()
		if got := ask(t, s, "shop", withHits("tenant=a", c.left+1)); got.GetOverallCode() == api.RateLimitResponse_OK {
			t.Errorf("%s, then %s: more than %d left after %d", c.from, c.to, c.left, c.spent)
		}
		if c.left > 0 {
			if got := ask(t, s, "shop", withHits("tenant=a", c.left)); got.GetOverallCode() != api.RateLimitResponse_OK {
				t.Errorf("%s, then %s: not %d left after %d", c.from, c.to, c.left, c.spent)
			}
		}
		refused := ask(t, s, "shop", descriptor("tenant=a"))
		if after := refused.GetStatuses()[0].GetDurationUntilReset().AsDuration(); after > c.passes+time.Second ||
			refused.GetOverallCode() == api.RateLimitResponse_OK {
			t.Errorf("%s, then %s: %v, passes after %v, want at most %v", c.from, c.to, refused.GetOverallCode(), after, c.passes)
		}
	}
}
