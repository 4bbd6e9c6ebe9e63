package rls

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
