package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/e2e/fleet/demand"
	"github.com/titrate/titrate/e2e/robustness/wire"
	"github.com/titrate/titrate/services/document"
)

func TestParseSites(t *testing.T) {
	for args, want := range map[string]string{
		"-sites 3 -n 6":                          "",
		"-sites 3 -n 32 -keys 20000":             "",
		"-sites 3 -n 5":                          "of 2 agents or more",
		"-sites 5 -n 50":                         "2 to 3 sites",
		"-sites 2 -exact":                        "no -exact",
		"-sites 2 -sweep 8,9":                    "no -sweep",
		"-sites 2 -cut 1ms":                      "-cut of 1s",
		"-sites 2 -phases steady":                "want some of 12.5ms, 40ms",
		"-sites 2 -phases leave":                 "leave needs join",
		"-sites 2 -phases cut,join,leave -n 200": "",
	} {
		_, err := parse(strings.Fields(args))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
	o, err := parse(strings.Fields("-sites 3"))
	if err != nil || o.rate != .05 || o.steady != time.Minute || o.envoys != 0 || len(o.phases) != len(sitePhases) {
		t.Errorf("%+v, %v", o, err)
	}
	o, err = parse(strings.Fields("-sites 3 -rate 1 -steady 15s"))
	if err != nil || o.rate != 1 || o.steady != 15*time.Second {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestSiteDocumentsCanBeRead(t *testing.T) {
	all, err := document.Parse("fleet.yaml", []byte(siteDocuments(demand.Crowd{Keys: 1, Sites: 3, Rate: .05}, "GLOBAL")))
	if err != nil || len(all) != 1+2*(len(tenants)+3) {
		t.Errorf("%d documents, %v", len(all), err)
	}
}

// withSites is a result of one phase of three sites.
func withSites(s *SitePhase) *Result {
	r := &Result{Agents: 6, Sites: 3, Keys: 100, Rate: .05, Phases: []Phase{{Name: "40ms", Bound: 15, Seconds: 61,
		Sites: s}}}
	r.judgeSites(&r.Phases[0])
	r.Pass = r.Void == "" && !r.failed()
	return r
}

// Each figure of several sites has its bound, a larger one where a burst is less than rate·δ. A run that could not
// notice two buckets in a site proves nothing.
func TestJudgeSites(t *testing.T) {
	over := func(lag float64, wrongful, admitted int) func(*SitePhase, *SiteClient) {
		return func(s *SitePhase, _ *SiteClient) {
			s.Lag = lag
			s.Clients = append(s.Clients, SiteClient{Name: "above", Rate: 100, Burst: 10, Load: 1.5, Sites: 3, Bound: 50,
				Figures: demand.Figures{Offered: 1500, Admitted: admitted, Central: 1000, Wrongful: wrongful}})
		}
	}
	for name, c := range map[string]struct {
		change func(*SitePhase, *SiteClient)
		want   string
	}{
		"good":       {func(*SitePhase, *SiteClient) {}, "PASS"},
		"agreement":  {func(s *SitePhase, _ *SiteClient) { s.Agreed = 16 }, "FAIL"},
		"known late": {func(s *SitePhase, _ *SiteClient) { s.Known = 15.2 }, "FAIL"},
		"keys":       {func(s *SitePhase, _ *SiteClient) { s.Keys = .9 }, "FAIL"},
		"bytes":      {func(s *SitePhase, _ *SiteClient) { s.Pair.Most = 101e3 }, "FAIL"},
		"crowd":      {func(s *SitePhase, _ *SiteClient) { s.Refused = 1 }, "FAIL"},
		"excess":     {func(_ *SitePhase, c *SiteClient) { c.Excess = 9 }, "FAIL"},
		"wrongly":    {func(_ *SitePhase, c *SiteClient) { c.Wrongful = 1 }, "FAIL"},
		"too much":   {func(_ *SitePhase, c *SiteClient) { c.Admitted = 1011 }, "FAIL"},
		"little":     {func(_ *SitePhase, c *SiteClient) { c.Admitted = 989 }, "FAIL"},
		"cut":        {func(s *SitePhase, c *SiteClient) { s.Cut, s.Steady, c.Offered = 30, false, 1006 }, "FAIL"},
		"late":       {over(.2, 60, 900), "PASS"},
		"late, more": {over(.2, 61, 900), "FAIL"},
		"late, less": {over(.2, 60, 899), "FAIL"},
		"in time":    {over(.1, 1, 1000), "FAIL"},
		"nobody":     {func(_ *SitePhase, c *SiteClient) { c.Offered = 0 }, "VOID"},
		"slow":       {func(_ *SitePhase, c *SiteClient) { c.Bound = 100 }, "VOID"},
		"slow, late": {func(_ *SitePhase, c *SiteClient) { c.Bound, c.Wrongful = 100, 1 }, "VOID"},
		"slow, bad":  {func(s *SitePhase, c *SiteClient) { c.Bound, s.Refused = 100, 1 }, "FAIL"},
	} {
		s := &SitePhase{Steady: true, Keys: 1, Clients: []SiteClient{{Name: "home", Rate: 100, Burst: 100, Load: 1.5,
			Sites: 1, Bound: 8, Figures: demand.Figures{Offered: 1500, Admitted: 1000, Central: 1000}}}}
		c.change(s, &s.Clients[0])
		r := withSites(s)
		if got := result([]*Result{r}); got != c.want {
			t.Errorf("%s: %s, %s", name, got, r.Void)
		}
		var out bytes.Buffer
		if err := write(&out, options{output: "table", sites: 3}, []*Result{r}); err != nil ||
			!strings.Contains(out.String(), "6 agents in 3 sites, 100 keys") || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
	}
}

// The bounds of an excess, in a site and over three.
func TestSiteBounds(t *testing.T) {
	s := SitePhase{Steady: true, SiteDelay: .001, Lag: .25, Late: .002}
	if got := s.bound(middle, 1); got != 1+.8+.2 {
		t.Errorf("%v in a site", got)
	}
	if got := s.bound(middle, 3); got != 2+200+25 {
		t.Errorf("%v over three sites", got)
	}
	s.Steady, s.Cut = false, 30
	if got := s.bound(middle, 3); got != 2+200+25+100+600 {
		t.Errorf("%v with one cut off", got)
	}
}

// A small fleet of three sites: their links are slow, and one of them is cut off. It runs in a network namespace.
func TestSites(t *testing.T) {
	programs := programs(t)
	if os.Getenv(insideVariable) == "" {
		runInside(t)
		return
	}
	o, err := parse(strings.Fields("-sites 3 -n 6 -keys 300 -steady 5s -hold 2s -cut 30s -phases 125ms,cut"))
	if err != nil {
		t.Fatal(err)
	}
	o.rig = programs
	r, err := run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	_ = write(&out, o, []*Result{r})
	t.Log(out.String())
	if r.Void != "" && !r.failed() {
		t.Skip(r.Void)
	}
	for _, c := range r.Checks {
		if !c.Pass {
			t.Errorf("%s, %s: %v %s, want %v; %s", c.Name, c.Phase, c.Figure, c.Unit, c.Most, c.Why)
		}
	}
	if len(r.Phases) != 2 || r.Phases[1].Sites.Pair.Most == 0 || r.Phases[1].Seconds < 30 {
		t.Errorf("%+v", r.Phases)
	}
}

// runInside runs this test once more in a network namespace.
func runInside(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run", fmt.Sprintf("^%s$", t.Name()), "-test.v")
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.SysProcAttr = wire.Own()
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Skip("no network namespace here: ", err)
	}
	if t.Log(string(out)); err != nil {
		t.Error(err)
	} else if bytes.Contains(out, []byte("--- SKIP: "+t.Name())) { // it proves nothing, and is no pass
		t.Skip("VOID: see above")
	}
}
