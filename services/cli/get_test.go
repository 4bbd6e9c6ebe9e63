package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/titrate/titrate/services/command"
)

// --watch prints tables when they have changed, waits in between, and says why it ends.
func TestWatchPrintsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		said := []string{"one\n", "one\n", "two\n", "one\n"}
		broken := errors.New("the coordinator is gone")
		ask := func() (string, error) {
			at = append(at, time.Since(start))
			if len(said) == 0 {
				return "", broken
			}
			defer func() { said = said[1:] }()
			return said[0], nil
		}
		var out strings.Builder
		err := (&get{every: 3 * time.Second}).follow(t.Context(), &out, ask)
		if !errors.Is(err, broken) || out.String() != "one\n\ntwo\n\none\n" {
			t.Errorf("%v, printed %q", err, out.String())
		}
		if len(at) != 5 || at[4] != 12*time.Second {
			t.Errorf("asked at %v, want every 3s", at)
		}
		ctx, cancel := context.WithCancel(t.Context())
		err = (&get{every: time.Hour}).follow(ctx, &out, func() (string, error) { cancel(); return "", ctx.Err() })
		if err != nil {
			t.Errorf("ended by its user: %v", err)
		}
	})
}

// What --watch prints is what get prints; it is for tables, and does not ask without a pause.
func TestWatch(t *testing.T) {
	server := serveAPI(t)
	must(t, server, "", "apply", "-f", "testdata/demo.yaml")
	for _, what := range []string{"", "pools", "tenants", "quotas", "limits", "tenants/acme"} {
		args := append([]string{"get"}, strings.Fields(what)...)
		want := must(t, server, "", args...)
		ctx, cancel := context.WithCancel(t.Context())
		out := &stopper{stop: cancel}
		var errs strings.Builder
		if status := Run(ctx, append(args, "-w"), nil, out,
			&errs); status != command.ExitOK || out.text.String() != want {
			t.Errorf("get %s -w: status %d, %s, printed\n%s, want\n%s", what, status, errs.String(), out.text.String(),
				want)
		}
	}
	fails(t, server, command.ExitUsage, "", []string{"--watch is for tables"}, "get", "-w", "-o", "yaml")
	fails(t, server, command.ExitUsage, "", []string{"--every 10ms: want at least 1s"}, "get", "-w", "--every", "10ms")
}

// stopper ends a command once it has written.
type stopper struct {
	text bytes.Buffer
	stop func()
}

func (s *stopper) Write(b []byte) (int, error) {
	s.stop()
	return s.text.Write(b)
}

// A tenant's tables have what belongs to it and nothing else; its document stands alone.
func TestGetATenant(t *testing.T) {
	server := serveAPI(t)
	must(t, server, "", "apply", "-f", "testdata/demo.yaml")
	got := must(t, server, "", "get", "tenants/acme")
	if !strings.Contains(got, "tenants/acme/quotas/api") || strings.Contains(got, "globex") {
		t.Errorf("%s", got)
	}
	if got := must(t, server, "", "get", "tenants/acme", "-o", "yaml"); strings.Contains(got, "quotas/") {
		t.Errorf("%s", got)
	}
	fails(t, server, command.ExitFailed, "", []string{"tenants/nobody"}, "get", "tenants/nobody")
}
