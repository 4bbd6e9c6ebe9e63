package dev

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/lab/dev/scenario"
	"github.com/titrate/titrate/lab/dev/verdict"
	"github.com/titrate/titrate/lab/dev/view"
	"github.com/titrate/titrate/lab/installation"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// script writes an executable shell script.
func script(t *testing.T, name, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// fakes is a configuration whose programs are scripts, in a temporary directory.
func fakes(t *testing.T, titrate string) Config {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	program := script(t, "titrate", titrate)
	if err := os.Symlink(program, installation.Beside(program, "titrate-lab")); err != nil {
		t.Fatal(err)
	}
	return Config{
		Titrate: program,
		Envoy:   script(t, "envoy", "exec sleep 600"),
		Module:  script(t, "libtitrate.so", ""),
		Out:     &bytes.Buffer{},
	}
}

func complete(t *testing.T, c Config) *Session {
	t.Helper()
	s, err := c.Complete()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAChildThatDiesAtStartIsShown(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := fakes(t, `echo "etcd: no space left on device" >&2; exit 7`)
	outcome, err := complete(t, c).Run(context.Background())
	if outcome != Failed || err == nil {
		t.Fatalf("outcome %v, error %v", outcome, err)
	}
	for _, want := range []string{"etcd", "exit status 7", "no space left on device"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in the error: %v", want, err)
		}
	}
	kept, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "titrate-dev-*", "etcd.log"))
	if len(kept) != 1 || !strings.Contains(c.Out.(*bytes.Buffer).String(), filepath.Dir(kept[0])) {
		t.Errorf("the log is not kept, or not named in\n%s", c.Out)
	}
}

// Ctrl-C while things start: no process, no directory left.
func TestInterruptLeavesNothing(t *testing.T) {
	defer goleak.VerifyNone(t)
	pids := filepath.Join(t.TempDir(), "pids")
	c := fakes(t, `echo $$ >> `+pids+`; exec sleep 600`)
	ctx, interrupt := context.WithCancel(context.Background())
	go func() { // once the first child runs
		for {
			if data, _ := os.ReadFile(pids); bytes.HasSuffix(data, []byte("\n")) {
				interrupt()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	outcome, err := complete(t, c).Run(ctx)
	if outcome != Failed || !errors.Is(err, ErrInterrupted) {
		t.Errorf("outcome %v, error %v", outcome, err)
	}
	data, _ := os.ReadFile(pids)
	for _, line := range strings.Fields(string(data)) {
		pid, _ := strconv.Atoi(line)
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d is alive", pid)
		}
	}
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAMissingPartIsExplained(t *testing.T) {
	there, output := fakes(t, "").Titrate, filepath.Join(t.TempDir(), "x")
	t.Setenv("ENVOY_BIN", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for want, c := range map[string]Config{
		"make envoy":         {Titrate: there, Module: there},
		"make build":         {Titrate: there, Envoy: there},
		"side by side":       {Module: there, Envoy: there},
		"not a program":      {Titrate: there, Module: there, Envoy: t.TempDir()},
		"too short":          {Titrate: there, Module: there, Envoy: there, Duration: time.Second},
		"10 gateways":        {Titrate: there, Module: there, Envoy: there, Gateways: 10},
		"--trace":            {Titrate: there, Module: there, Envoy: there, Trace: "/nowhere/trace.ndjson"},
		"the same file":      {Titrate: there, Module: there, Envoy: there, Trace: output, JSON: output},
		"--base-port 65535:": {Titrate: there, Module: there, Envoy: there, BasePort: 65535},
	} {
		if _, err := c.Complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// The scenario has the figures of demo.yaml.
func TestDemoDocumentAgreesWithTheScenario(t *testing.T) {
	resources, err := installation.Resources(DemoDocument)
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Demo(time.Minute, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	weights, guaranteed := map[string]float64{}, map[string]float64{}
	limits, exact := map[string]map[string]config.RateBurst{}, map[string]config.RateBurst{}
	for _, r := range resources {
		switch r := resource.Unwrap(r).(type) {
		case *quotav1.Pool:
			if r.GetName() != "pools/"+s.Pool.Name || r.GetCapacity() != s.Pool.Capacity ||
				r.GetQueue().GetDelayTarget().AsDuration().Seconds() != s.Pool.Target {
				t.Errorf("pool %v", r)
			}
		case *quotav1.Tenant:
			weights[strings.TrimPrefix(r.GetName(), "tenants/")] = r.GetWeight()
		case *quotav1.Quota:
			guaranteed[strings.Split(r.GetName(), "/")[1]] = r.GetGuaranteed()
		case *quotav1.Limit:
			limit, err := resource.LimitConfig(r)
			if err != nil {
				t.Fatal(err)
			}
			tenant := strings.Split(r.GetName(), "/")[1]
			if r.GetPrecision() == quotav1.Precision_EXACT {
				exact[tenant] = config.RateBurst{Rate: limit.Rate, Burst: limit.Burst}
			} else {
				limits[tenant] = limit.Overrides
			}
		}
	}
	if len(weights) != len(s.Tenants) {
		t.Errorf("%d tenants, the scenario has %d", len(weights), len(s.Tenants))
	}
	for _, tenant := range s.Tenants {
		if weights[tenant.Name] != tenant.Weight {
			t.Errorf("%s: weight %v, the scenario has %v", tenant.Name, weights[tenant.Name], tenant.Weight)
		}
		if guaranteed[tenant.Name] != tenant.Guaranteed {
			t.Errorf("%s: guaranteed %v, the scenario has %v", tenant.Name, guaranteed[tenant.Name], tenant.Guaranteed)
		}
		for _, c := range tenant.Clients {
			got, limited := limits[tenant.Name][c.Name]
			if c.Limit != nil && c.Limit.Exact {
				got, limited = exact[tenant.Name]
			}
			if limited != (c.Limit != nil) || limited && (got.Rate != c.Limit.Rate || got.Burst != c.Limit.Burst) {
				t.Errorf("%s: limit %+v, the scenario has %+v", c.Name, got, c.Limit)
			}
		}
	}
}

func TestPlannedSharesFillThePool(t *testing.T) {
	s, err := scenario.Demo(time.Minute, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	for phase := range s.Phases {
		total := 0.0
		for _, x := range plannedShares(s, phase) {
			total += x
		}
		if total < s.Pool.Capacity-1e-6 || total > s.Pool.Capacity+1e-6 {
			t.Errorf("phase %d: shares sum to %v", phase, total)
		}
	}
}

func TestReportSaysHowItEnded(t *testing.T) {
	phase := verdict.Phase{Name: "steady", Pool: verdict.Pool{Capacity: 300},
		Clients: []verdict.Client{{Name: "small"}}}
	check := verdict.Check{Name: verdict.CheckFailed, Phase: "steady", Value: 1, Bound: 0}
	fine := verdict.Check{Name: verdict.CheckPoolMean, Phase: "steady", Value: 1, Bound: 2, Pass: true}
	for want, v := range map[string]struct {
		verdict verdict.Verdict
		outcome Outcome
	}{
		"\nPASS: 1 check held. Load: ": {verdict.Verdict{Pass: true, Phases: []verdict.Phase{phase},
			Checks: []verdict.Check{fine}}, Passed},
		"\nFAIL: 1 of 2 checks did not hold. Load: ": {verdict.Verdict{Checks: []verdict.Check{fine, check}}, Failed},
		"\nVOID: this machine could not keep up: late. Load: ": {verdict.Verdict{Void: true, VoidReasons: []string{"late"}},
			Void},
	} {
		var out bytes.Buffer
		path := filepath.Join(t.TempDir(), "verdict.json")
		outcome, err := Report(&out, path, &v.verdict, false)
		if err != nil || outcome != v.outcome || !strings.HasPrefix(out.String(), want) {
			t.Errorf("outcome %v, error %v, want %q in\n%s", outcome, err, want, out.String())
		}
		if text := out.String(); strings.Contains(text, "  ok ") || strings.Contains(text, "capacity") ||
			strings.Contains(text, "BROKEN") != (outcome == Failed) ||
			strings.HasSuffix(text, "(Exit status 3; README.md, VOID.)\n") != (outcome == Void) {
			t.Errorf("more, or less, than what is not ok:\n%s", text)
		}
		var all bytes.Buffer
		_, err = Report(&all, "", &v.verdict, true)
		if text := all.String(); err != nil || !strings.HasPrefix(text, want) || outcome == Passed &&
			(!strings.Contains(text, "  ok ") || !strings.Contains(text, "of 300/s capacity")) {
			t.Errorf("with -v (%v):\n%s", err, text)
		}
		if data, _ := os.ReadFile(path); !bytes.Contains(data, []byte(`"pass"`)) {
			t.Errorf("no JSON: %s", data)
		}
	}
}

// The live table's text about a tenant fits its column.
func TestStatesFitTheTable(t *testing.T) {
	explained := func(e *quotav1.Explanation) map[string]*quotav1.Explanation {
		return map[string]*quotav1.Explanation{"acme": e}
	}
	states := []map[string]*quotav1.Explanation{nil, {}, explained(&quotav1.Explanation{Stale: true})}
	for bound := range quotav1.Bound_name {
		states = append(states, explained(&quotav1.Explanation{BoundBy: quotav1.Bound(bound)}))
	}
	for _, why := range states {
		if state := tenantState(why, "acme"); state == "" || len(state) > view.StateWidth {
			t.Errorf("%q has %d characters, at most %d fit", state, len(state), view.StateWidth)
		}
	}
}

// The instructions for a person who drives the demo call the program as that person does.
func TestTheManualCallsTheProgramAsItWasCalled(t *testing.T) {
	s, err := scenario.Demo(time.Minute, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	p, err := installation.PlanPorts(0, 2)
	if err != nil {
		t.Fatal(err)
	}
	one := &Session{config: Config{Program: "bin/titrate-lab", Module: "libtitrate.so"}, scenario: s, ports: p}
	w, err := newInstallation(&one.config, s, p, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	text := one.manual(w)
	for _, want := range []string{"\n  bin/titrate get pools\n", "\n  bin/titrate-lab load --gateways " +
		w.Gateways[0].URL() + "," + w.Gateways[1].URL() + " --tenant ", p.REST() + "/v1alpha1/pools"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
