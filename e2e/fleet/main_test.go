package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/e2e/artifact"
	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/lab/simulate/measure"
	"github.com/titrate/titrate/services/document"
)

func TestParse(t *testing.T) {
	for args, want := range map[string]string{
		"":                               "",
		"-n 64 -keys 10":                 "",
		"-sweep 5,8 -o csv":              "",
		"-n 4":                           "want 5 to 1000",
		"-sweep 8,4":                     "want 5 to 1000",
		"-sweep-keys 100,0":              "-keys of 1 or more",
		"-sweep-keys x":                  `"x" is no number`,
		"-sweep 8,9 -sweep-keys 1":       "want one of them",
		"-sweep 8,x":                     `"x" is no number`,
		"-phases steady,fall":            "want some of steady, join",
		"-o yaml":                        "want table, json or csv",
		"-rate 0":                        "-rate above 0",
		"-forget 1s":                     "-forget of 2s",
		"more":                           "is no flag",
		"-pictures x":                    "go with -sweep",
		"-phases join,leave,crash -n 40": "",
		"-exact -n 3 -keys 120000":       "",
		"-exact -n 3 -keys 120001":       "want 120000 at most",
		"-exact -n 2":                    "want 3 or more",
		"-exact -sweep 3,4":              "no -sweep",
		"-exact -phases steady,crash":    "want some of steady, join, leave, kill",
		"-exact -phases steady,leave":    "leave needs join",
		"-exact -phases kill,restart":    "",
	} {
		_, err := parse(strings.Fields(args))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
	if _, err := parse([]string{"-help"}); !errors.Is(err, flag.ErrHelp) {
		t.Error(err)
	}
	if o, err := parse([]string{"-exact"}); err != nil || o.envoys != 0 || len(o.phases) != len(exactPhases) {
		t.Errorf("%+v, %v", o, err)
	}
	for _, c := range []struct {
		exact bool
		args  []string
	}{
		{false, []string{"-keys", "49999"}}, {true, []string{"-keys", "50000"}},
		{false, []string{"-keys", "50000", "-exact=false"}}, {false, []string{"-keys", "50000", "-sites", "2"}},
	} {
		if o, err := parse(c.args); err != nil || o.exact != c.exact {
			t.Errorf("%v: EXACT: %v, %v", c.args, o.exact, err)
		}
	}
	o, err := parse([]string{"-n", "40"})
	if err != nil || o.parts() != 5 || len(o.phases) != len(phases) || o.membership() != 20*time.Second ||
		o.split() != 10*time.Second {
		t.Errorf("%+v: %d parts, %v, %v, %v", o, o.parts(), o.membership(), o.split(), err)
	}
}

func TestDocumentsCanBeRead(t *testing.T) {
	all, err := document.Parse("fleet.yaml", []byte(documents(&options{agents: 3, keys: 100_000})))
	if err != nil || len(all) != 5+2*len(tenants) {
		t.Errorf("%d documents, %v", len(all), err)
	}
}

func TestParseMetrics(t *testing.T) {
	m, err := parseMetrics(`# HELP titrate_agent_gossip_bytes_total Datagram bytes
titrate_agent_gossip_bytes_total{direction="in",otel_scope_name="a"} 12
titrate_agent_gossip_bytes_total{direction="out",otel_scope_name="a"} 1.5e+06
titrate_agent_gossip_delay_seconds 0.25
titrate_agent_tokens_messages_total{kind="grant",otel_scope_name="a"} 3
titrate_agent_tokens_messages_total{kind="request",otel_scope_name="a"} 4
go_goroutines 7
`)
	if err != nil || m[bytesOut] != 1.5e6 || m[bytesIn] != 12 || m[delay] != .25 || m[granted] != 3 || len(m) != 5 {
		t.Errorf("%v, %v", m, err)
	}
	if _, err := parseMetrics("go_goroutines 7\n"); err == nil {
		t.Error("a page without the agent's metrics is accepted")
	}
}

// finished is a result of one phase.
func finished(claims float64) *Result {
	r := &Result{Agents: 8, Keys: 10, Users: 3, Rate: 1, Phases: []Phase{{Name: steady, Claims: claims, Bound: 1,
		BoundMembers: 1, CountsSeen: 1, Wrong: "gateway 3 receives 1 for key 7, want 2", Seconds: 5,
		Use: Use{CPU: Figure{.1, .2}, BytesOut: Figure{1e4, 2e4}, PacketsOut: Figure{10, 20}}}}}
	r.judgePhase(&r.Phases[0])
	r.Pass = !slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.Pass })
	return r
}

// withExact is a result of one phase with EXACT keys.
func withExact(of Tokens, busy float64) *Result {
	r := &Result{Agents: 3, Keys: 100, Exact: true, Phases: []Phase{{Name: steady, Bound: 15, Tokens: &of,
		Busy: busy * float64(runtime.NumCPU())}}}
	r.judgeExact(&r.Phases[0])
	r.Pass = r.Void == "" && !r.failed()
	return r
}

// Each figure of EXACT keys has its bound, and a run without requests proves nothing.
func TestJudgeExact(t *testing.T) {
	good := Tokens{Agreed: 1, PerKey: 5, Requests: 100, Decided: .995, Owned: 1}
	for name, c := range map[string]struct {
		change func(*Tokens)
		want   string
	}{
		"good":      {func(*Tokens) {}, "PASS"},
		"quiet":     {func(x *Tokens) { x.PerKey = -.1 }, "PASS"},
		"flood":     {func(x *Tokens) { x.PerKey = 5.1 }, "FAIL"},
		"link":      {func(x *Tokens) { x.Lost = 1 }, "FAIL"},
		"ledger":    {func(x *Tokens) { x.Decided = .98 }, "FAIL"},
		"refusal":   {func(x *Tokens) { x.Refused, x.Why = 1, "gw-1 refused client c-1-7" }, "FAIL"},
		"agreement": {func(x *Tokens) { x.Agreed = 16 }, "FAIL"},
		"unowned":   {func(x *Tokens) { x.Owned = .5 }, "FAIL"},
		"nothing":   {func(x *Tokens) { x.Requests, x.Decided = 0, 1 }, "VOID"},
		"busy":      {func(*Tokens) {}, "VOID"},
	} {
		of := good
		c.change(&of)
		r := withExact(of, map[string]float64{"busy": .99}[name])
		if got := result([]*Result{r}); got != c.want {
			t.Errorf("%s: %s, %s", name, got, r.Void)
		}
		var out bytes.Buffer
		if err := write(&out, options{output: "table", exact: true}, []*Result{r}); err != nil ||
			!strings.Contains(out.String(), "3 agents, 100 keys of EXACT limits") ||
			!strings.Contains(out.String(), of.Why) || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
	}
}

// What an agent has counted still counts when it has ended.
func TestTally(t *testing.T) {
	all := tally{}
	for _, a := range []agentUsage{{pid: 1, metrics: metrics{asked: 3, granted: 1}}, {pid: 2,
		metrics: metrics{recalled: 5}}, {pid: 1, metrics: metrics{asked: 5, granted: 3, recalled: 1}}} {
		all.note(&a)
	}
	if all[1] != 9 || all[2] != 5 {
		t.Errorf("%v", all)
	}
}

func TestOutput(t *testing.T) {
	for _, c := range []struct {
		o    options
		of   *Result
		want []string
	}{
		{options{output: "table"}, finished(.5), []string{"each used by 3", "0.10 (0.20)", "\nPASS\n"}},
		{options{output: "table"}, finished(2), []string{"gateway 3 receives 1", "\nFAIL\n"}},
		{options{output: "table", sweep: []int{8}}, finished(.5), []string{"| 8 ", "| 10000 ", "\nPASS\n"}},
	} {
		var out bytes.Buffer
		if err := write(&out, c.o, []*Result{c.of}); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in\n%s", want, out.String())
			}
		}
	}
	var doc, list bytes.Buffer
	var back Result
	if err := write(&doc, options{output: "json"}, []*Result{finished(2)}); err != nil ||
		json.Unmarshal(doc.Bytes(), &back) != nil || back.Pass || back.Phases[0].Use.BytesOut.Most != 2e4 {
		t.Errorf("%v: %s", err, doc.String())
	}
	err := write(&list, options{output: "csv"}, []*Result{finished(.5), finished(2)})
	rows, bad := csv.NewReader(&list).ReadAll()
	if err != nil || bad != nil || len(rows) != 3 || rows[2][len(rows[2])-1] != "false" {
		t.Errorf("%v, %v: %v", err, bad, rows)
	}
}

// A run is void when too few counts could be judged, and fails when one is wrong in any case.
func TestVoid(t *testing.T) {
	for _, c := range []struct {
		off, seen float64
		verdict   string
	}{{0, 1, "PASS"}, {0, .6, "PASS"}, {1, 1, "FAIL"}, {0, .4, "VOID"}, {1, .4, "FAIL"}} {
		r := &Result{Agents: 64, Envoys: 3}
		r.judgePhase(&Phase{Name: steady, Agents: 64, CountOff: c.off, CountsSeen: c.seen, Late: 4,
			Use: Use{CPU: Figure{Mean: .05}}})
		if got := result([]*Result{r}); got != c.verdict {
			t.Errorf("%+v: %s", c, got)
		}
		if (r.Void != "") != (c.seen < leastSeen) || r.Void != "" && !strings.Contains(r.Void, "try -n ") {
			t.Errorf("%+v: void %q", c, r.Void)
		}
	}
}

// A run that is not over in time is void if the processors were full, and has no verdict if they were not.
func TestLate(t *testing.T) {
	busy, err := rig.Busy()
	if err != nil {
		t.Fatal(err)
	}
	late := fmt.Errorf("start: %w 9m0s; what was wrong last: a sum", errTimeout)
	for _, c := range []struct {
		err  error
		used float64 // of the processors
		void bool
	}{{late, .97, true}, {late, .5, false}, {errors.New("an agent died"), .97, false},
		{fmt.Errorf("start: %w -timeout 9m0s\nits log", errLate), .97, true}} {
		took := 1000 * time.Second // this test uses little
		before := busy - time.Duration(c.used*float64(runtime.NumCPU())*float64(took))
		r, err := (&Result{Agents: 16}).late(c.err, took, before)
		if (err == nil) != c.void || c.void && !strings.Contains(r.Void, "97 % busy (start: not within -timeout 9m0s") {
			t.Errorf("%v with %v: %+v, %v", c.err, c.used, r, err)
		}
	}
}

// The number of agents that fit is half of a number that was too large, or less if other processes use the
// machine.
func TestFitting(t *testing.T) {
	r := &Result{Agents: 64, Envoys: 3}
	all := float64(runtime.NumCPU())
	p := &Phase{Agents: 64, Harness: all / 4, Busy: all, Use: Use{CPU: Figure{Mean: all / 128}}}
	if n := r.fitting(p); n != 32 {
		t.Errorf("%d, where the fleet uses three quarters of the machine", n)
	}
	p.Busy, p.Harness, p.Use.CPU.Mean = all, 0, all/64
	if n := r.fitting(p); n != 32 {
		t.Errorf("%d, where the fleet uses all of the machine", n)
	}
	p.Use.CPU.Mean = all / 640
	if n := r.fitting(p); n != 32 {
		t.Errorf("%d, where others use nine tenths of the machine", n)
	}
}

func TestDraw(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pictures")
	few, many := finished(.5), finished(.5)
	many.Agents = 32
	few.Simulated, many.Simulated = &measure.Gossip{}, &measure.Gossip{Bytes: measure.Figure{Mean: 1, Most: 2}}
	if err := draw(options{pictures: dir, sweep: []int{1, 2}}, []*Result{few, many}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "fleet-*"))
	if err != nil || len(files) != 9 {
		t.Errorf("%v, %v", files, err)
	}
}

// programs are the programs of a real fleet.
func programs(t *testing.T) rig.Options {
	return rig.Options{Progress: t.Output(), Programs: artifact.Programs(t)}
}

// A small fleet with EXACT keys goes through all phases except the longest. On a busy machine owners answer
// late, so it is not judged which requests owners decide.
func TestExactFleet(t *testing.T) {
	o, err := parse([]string{"-exact", "-n", "3", "-keys", "500", "-steady", "2s", "-hold", "1s",
		"-phases", "steady,join,leave,kill,restart,gateway-paused"})
	if err != nil {
		t.Fatal(err)
	}
	o.rig = programs(t)
	r, err := run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	_ = write(&out, o, []*Result{r})
	for _, c := range r.Checks {
		if !c.Pass && !strings.Contains(c.Name, "no owner decided") {
			t.Errorf("%s, %s: %v %s; %s", c.Name, c.Phase, c.Figure, c.Unit, c.Why)
		}
	}
	t.Log(out.String())
	messages := 0.0
	for _, p := range r.Phases { // while nothing happens there may be none for seconds: each gateway has its keys' buckets
		messages += p.Tokens.Messages
	}
	if len(r.Phases) != len(o.phases) || messages == 0 {
		t.Errorf("%+v", r.Phases)
	}
}

// A small fleet, one of its gateways an Envoy, goes through all phases.
func TestFleet(t *testing.T) {
	o, err := parse([]string{"-n", "4", "-envoys", "1", "-keys", "40", "-users", "2", "-part", "1", "-steady", "2s",
		"-hold", "2s", "-forget", "3s"})
	if err != nil {
		t.Fatal(err)
	}
	o.rig = programs(t)
	r, err := run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Void != "" {
		t.Skip(r.Void)
	}
	if !r.Pass {
		var out bytes.Buffer
		_ = write(&out, o, []*Result{r})
		t.Error(out.String())
	}
	if len(r.Phases) != len(phases) || r.Phases[0].Use.BytesOut.Mean == 0 || r.Phases[0].Use.CPU.Mean == 0 ||
		r.Traffic == nil || r.Traffic.Mean < .9 {
		t.Errorf("%+v, traffic %+v", r.Phases, r.Traffic)
	}
}
