package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/e2e/robustness/check"
	"github.com/titrate/titrate/e2e/robustness/fault"
	"github.com/titrate/titrate/e2e/robustness/load"
	"github.com/titrate/titrate/papers/markdown"
)

func TestParseSeeds(t *testing.T) {
	for text, want := range map[string][]uint64{"": {9}, "3": {3}, "1-3": {1, 2, 3}, "5,1-2": {5, 1, 2}, "3-1": nil,
		"x": nil, "1-": nil} {
		got, err := parseSeeds(text, 9)
		if !reflect.DeepEqual(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestAFailingSeedTellsHowToReplayIt(t *testing.T) {
	for _, args := range []string{"", "-faults kill,freeze-agent", "-clients 5 -share-pools=false",
		"-faults partition-sites -sites 2"} {
		want := "make robustness DURATION=2m0s SEED=7"
		if args != "" {
			want += " ARGS='" + args + "'"
		}
		o, err := parse(append([]string{"-duration", "2m"}, strings.Fields(args)...))
		if err != nil {
			t.Fatal(err)
		}
		if got := o.replay(7); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		again, err := parse(o.args(7))
		if err != nil || again.replay(7) != want {
			t.Errorf("the process of the seed: %s, %v, want %s", again.replay(7), err, want)
		}
	}
	r := Result{Seed: 7, Findings: []check.Finding{{Check: "failed", At: time.Second, What: "a request"}}}
	r.atMost("failed requests", "", 1, 0, "")
	var out bytes.Buffer
	r.table(&out)
	for _, want := range []string{"failed requests", "FAIL", "1.0 s  failed: a request"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if r.why() != "failed requests" {
		t.Errorf("why: %q", r.why())
	}
}

// docs/robustness.md has the faults and graces that there are.
func TestTheDocumentHasTheFaults(t *testing.T) {
	raw, err := os.ReadFile("../../docs/robustness.md")
	if err != nil {
		t.Fatal(err)
	}
	part, err := markdown.Part(string(raw), writer)
	if err != nil || strings.TrimSpace(part) != strings.TrimSpace(kindsTable()) {
		t.Errorf("another table in docs/robustness.md (%v): bin/robustness -document docs/robustness.md writes it", err)
	}
}

// What was run is written between its lines; the rows of other versions stay.
func TestSummaryKeepsOtherVersions(t *testing.T) {
	dir := t.TempDir()
	document := filepath.Join(dir, "document")
	old := summary([][]string{{"v1", "all", "10", "1", "2", "–", "0.33", "90", "1000"},
		{"v2", "all", "10", "1", "–", "–", "0.17", "45", "500"}}, nil)
	begin, end := "<!-- written by "+summaryWriter+": begin -->", "<!-- written by "+summaryWriter+": end -->"
	text := "# Page\n" + begin + "\n" + old + end + "\nkept\n"
	if err := os.WriteFile(document, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for seed, pass := range map[uint64]bool{3: true, 4: false} {
		raw, err := json.Marshal(Result{Seed: seed, Seconds: 600, Version: "v2", Pass: pass,
			Faults: []check.Fault{{Kind: "kill-agent"}}, Requests: Requests{Sent: 7}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("seed-%d.json", seed)), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the same results again change nothing
		if err := summarize(io.Discard, dir, document); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"# Page\n", "| v1 | all | 10 | 1 | 2 | – | 0.33 | 90 | 1000 |\n" +
			"| v2 | all | 10 | 3 | 4 | – | 0.33 | 2 | 14 |\n", "Faults done at v2:", "| kill-agent | 2 |\n",
			"\nkept\n"} {
			if strings.Count(string(got), want) != 1 {
				t.Errorf("not once %q in\n%s", want, got)
			}
		}
	}
}

// Over two sites a limit may exceed its bound within one by a burst, and by what is admitted before the other site
// knows. Of the scope GLOBAL it may do so only where ledgers decide.
func TestBoundOverSites(t *testing.T) {
	within := check.Bound{Rate: 10, Burst: 4, Slack: 1, Ledgers: 2}
	home, away, global := within, within, within
	away.Slack = 1 + 4 + 12.5
	global.Slack, global.Ledgers = 1+8*10*.3, 2+4+12.5
	for _, c := range []struct {
		limit limit
		sites int
		want  check.Bound
	}{{limit{}, 1, home}, {limit{global: true}, 1, home}, {limit{}, 2, away}, {limit{global: true}, 2, global}} {
		c.limit.rate, c.limit.burst = 10, 4
		got := c.limit.over(c.sites, within, time.Second, 6*time.Millisecond)
		if got.Slack = math.Round(got.Slack*1e6) / 1e6; got != c.want {
			t.Errorf("%d sites, global %v: %+v, want %+v", c.sites, c.limit.global, got, c.want)
		}
	}
	if o, err := parse([]string{"-sites", "2"}); err != nil || o.only() != "2 sites" || len(o.kinds) <= len(fault.Kinds) {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := parse([]string{"-sites", "3"}); err == nil {
		t.Error("three sites are accepted")
	}
}

func TestTenantsAreThoseOfTheDocuments(t *testing.T) {
	q := quotasOf(time.Minute)
	documents := documents + q.documents(time.Now()) + q.daily()
	for _, c := range clients {
		if !strings.Contains(documents, "tenants/"+c.Tenant+",") {
			t.Errorf("no tenant %s in the documents", c.Tenant)
		}
	}
	for name := range limits {
		i := slices.IndexFunc(clients, func(c load.Client) bool { return c.Name == name })
		if i < 0 || !strings.Contains(documents, "client: "+name+",") &&
			!strings.Contains(documents, "tenants/"+clients[i].Tenant+"/limits/") {
			t.Errorf("no client, or no limit, of %s", name)
		}
	}
}

// A machine that is too slow makes a run void, which is not clean; it excuses nothing that
// does not depend on time.
func TestVoid(t *testing.T) {
	late := Check{Name: "blocked requests", Figure: 1}
	lost := Check{Name: "acknowledged changes lost", Figure: 1, hard: true}
	fine := Check{Name: "panics", Pass: true, hard: true}
	for name, c := range map[string]struct {
		stalled float64
		before  time.Duration // the finding, from the end of a stall on
		checks  []Check
		word    string
		verdict string
	}{
		"clean":                    {4, 16 * time.Second, []Check{fine}, "PASS", ""},
		"late":                     {4, 16 * time.Second, []Check{fine, late}, "FAIL", "FAIL: 1 of 1, and 0 void"},
		"slow machine":             {6, 16 * time.Second, []Check{fine}, "VOID", "VOID: 1 of 1"},
		"late on a slow machine":   {6, 16 * time.Second, []Check{fine, late}, "VOID", "VOID: 1 of 1"},
		"a loss on a slow machine": {6, 16 * time.Second, []Check{late, lost}, "FAIL", "FAIL: 1 of 1, and 0 void"},
		"late after a stall":       {1, 14 * time.Second, []Check{fine, late}, "VOID", "VOID: 1 of 1"},
		"a loss after a stall":     {1, 14 * time.Second, []Check{late, lost}, "FAIL", "FAIL: 1 of 1, and 0 void"},
	} {
		stall := check.Span{From: 30 * time.Second, To: 31 * time.Second}
		r := &Result{Checks: c.checks, Stalled: c.stalled, Requests: Requests{Admitted: 1},
			Findings: []check.Finding{{At: stall.To + c.before}}}
		r.conclude(100*time.Second, []check.Span{stall})
		if r.word() != c.word || r.Pass != (c.word == "PASS") {
			t.Errorf("%s: %s, pass %v, want %s", name, r.word(), r.Pass, c.word)
		}
		verdict := ""
		err := (&options{output: "table"}).verdict(t.Context(), []*Result{r})
		if err != nil {
			verdict = err.Error()
		}
		if verdict != c.verdict {
			t.Errorf("%s: %q, want %q", name, verdict, c.verdict)
		}
		if _, is := err.(voidError); is != (c.word == "VOID") {
			t.Errorf("%s: %T says that it is void: %v", name, err, is)
		}
	}
}

// A refusal beside a lying gateway is judged for clients that it does not name, and beside a lying agent for none.
func TestSparedClientsAreJudgedBesideALyingGateway(t *testing.T) {
	within := load.Client{Tenant: "exact", Name: "within", Pool: "found"}
	if !spared(&within) || slices.Contains((&scene{}).Named(), "exact/within") || len((&scene{}).Named()) < 6 {
		t.Errorf("%v are named", (&scene{}).Named())
	}
	records := []load.Record{{Client: &within, Sent: 20 * time.Second, Status: 429}}
	for kind, want := range map[string]bool{"lying-gateway": true, "lying-agent": false} {
		kinds, err := fault.Select([]string{kind}, false)
		if err != nil {
			t.Fatal(err)
		}
		faults := []check.Fault{{Kind: kind, From: 15 * time.Second, To: 25 * time.Second, Grace: kinds[0].Grace}}
		var r Result
		r.spared(records, check.Quiet(check.Unsparing(faults), settled, 40*time.Second, shortest))
		if failed := !r.Checks[0].Pass; failed != want || len(r.Findings) > 0 != want {
			t.Errorf("%s: failed %v, findings %v", kind, failed, r.Findings)
		}
	}
}
