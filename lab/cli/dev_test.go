package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/dev/load"
	"github.com/titrate/titrate/lab/dev/scenario"
	"github.com/titrate/titrate/lab/dev/trace"
	"github.com/titrate/titrate/services/command"
)

// writeTrace writes a trace in which every request ended alike.
func writeTrace(t *testing.T, change func(*trace.Record)) string {
	t.Helper()
	s, err := scenario.Demo(scenario.MinDuration, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	var records []trace.Record
	for _, shot := range load.NewPlan(s) {
		tenant := s.Tenants[shot.Tenant]
		r := trace.Record{T: shot.T, Gateway: "gw-1", Tenant: tenant.Name, Client: tenant.Clients[shot.Client].Name,
			Status: 503}
		change(&r)
		records = append(records, r)
	}
	path := filepath.Join(t.TempDir(), "trace.ndjson")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := trace.Write(f, s, records); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDevRecomputesAndExitsByTheVerdict(t *testing.T) {
	for want, c := range map[int]struct {
		path, says string
	}{
		command.ExitFailed: {writeTrace(t, func(*trace.Record) {}), "\nFAIL: "},
		command.ExitVoid:   {writeTrace(t, func(r *trace.Record) { r.Late = time.Second.Seconds() }), "\nVOID: "},
	} {
		var out, errs bytes.Buffer
		verdict := filepath.Join(t.TempDir(), "verdict.json")
		got := Run(context.Background(), []string{"dev", "--recompute", c.path, "--json", verdict}, nil, &out, &errs)
		if got != want || !strings.Contains(out.String(), c.says) || errs.Len() > 0 {
			t.Errorf("exit %d, want %d; %q; stderr %q", got, want, c.says, errs.String())
		}
		if data, _ := os.ReadFile(verdict); !bytes.Contains(data, []byte(`"maxSliding1s"`)) {
			t.Errorf("verdict.json: %s", data)
		}
	}
}

func TestDevRefusesWithTheRightStatus(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int
		says string
	}{
		{[]string{"dev", "--duration", "5s"}, command.ExitUsage, "24s"},
		{[]string{"dev", "--gateways", "10"}, command.ExitUsage, "1 to 9"},
		{[]string{"dev", "now"}, command.ExitUsage, "now"},
		{[]string{"dev", "--recompute", "/nowhere"}, command.ExitFailed, "/nowhere"},
		{[]string{"dev", "--envoy", "/nowhere"}, command.ExitFailed, "make envoy"},
		{[]string{"upstream", "--capacity", "0"}, command.ExitUsage, "--capacity"},
		{[]string{"load", "--gateways", "http://127.0.0.1:1", "--tenant", "acme"}, command.ExitUsage, "acme=200"},
	} {
		var out, errs bytes.Buffer
		if got := Run(context.Background(), c.args, nil, &out, &errs); got != c.want ||
			!strings.Contains(errs.String(), c.says) {
			t.Errorf("%v: exit %d, want %d, with %q in %q", c.args, got, c.want, c.says, errs.String())
		}
	}
}
