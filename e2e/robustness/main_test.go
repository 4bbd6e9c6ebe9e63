package main

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/e2e/robustness/check"
	"github.com/titrate/titrate/e2e/robustness/load"
)

func TestParseSeeds(t *testing.T) {
	for text, want := range map[string][]uint64{"": {9}, "3": {3}, "1-3": {1, 2, 3}, "5,1-2": {5, 1, 2}, "3-1": nil, "x": nil, "1-": nil} {
		got, err := parseSeeds(text, 9)
		if !reflect.DeepEqual(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestAFailingSeedTellsHowToReplayIt(t *testing.T) {
	o := options{duration: 2 * time.Minute, faults: "kill,freeze-agent"}
	if got, want := o.replay(7), "make robustness DURATION=2m0s SEED=7 ARGS='-faults kill,freeze-agent'"; got != want {
		t.Errorf("%s, want %s", got, want)
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

func TestTenantsAreThoseOfTheDocuments(t *testing.T) {
	for _, c := range clients {
		if !strings.Contains(documents, "tenants/"+c.Tenant+",") {
			t.Errorf("no tenant %s in the documents", c.Tenant)
		}
	}
	for name := range limits {
		i := slices.IndexFunc(clients, func(c load.Client) bool { return c.Name == name })
		if i < 0 || !strings.Contains(documents, "client: "+name+",") && !strings.Contains(documents, "tenants/"+clients[i].Tenant+"/limits/") {
			t.Errorf("no client, or no limit, of %s", name)
		}
	}
}
