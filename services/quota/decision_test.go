package quota_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// What each decision is said to have been, step by step.
func TestFindDecisions(t *testing.T) {
	limits := []*quotav1.LimitStep{
		{Limit: "per-client", Client: "app-7", Rate: 3, Burst: 3, Free: .25, Wait: durationpb.New(250 * time.Millisecond)},
		{Limit: "all", Rate: 50, Burst: 100, Free: 40, Passes: true},
		{Limit: "tight", Client: "app-7", Rate: 1, Burst: 1, Free: -1.98, Shadow: true},
	}
	share := &quotav1.ShareStep{Share: 20, Rate: 6.7, Demand: 30, Credit: .5, Waiting: 4}
	for name, c := range map[string]struct {
		d     *quotav1.Decision
		wants []string
	}{
		"limit": {&quotav1.Decision{Refused: true, Reason: "client_limit", Limit: "per-client", Limits: limits, Share: share,
			RetryAfter: durationpb.New(time.Second)}, []string{
			"Gateway gw-1 refused it (client_limit) 14 s ago.",
			`tenant "acme", client "app-7", to pool "api", with a cost of 2`,
			`Limit per-client lets client "app-7" have 3.0/s, burst 3: 0.25 was free, so it refused (enough after 250ms).`,
			"40 was free, enough for the request.", "0 was free, 1.98 taken beyond it, ",
			"too little for one request more; it is in SHADOW.",
			"was not asked: the limit came first.", "may pass after 1s."}},
		"share": {&quotav1.Decision{Refused: true, Reason: "queue_timeout", Limit: "tenant-share", Limits: limits[1:2],
			Share: share, Waited: durationpb.New(480 * time.Millisecond), HeldBy: "tenant-share"}, []string{
			"refused it (queue_timeout), after it had waited for 480ms for its tenant's share, 14 s ago.",
			"20.0/s over all gateways, 6.7/s at this one, which was asked for 30.0/s; 0.5 could pass at once, and 4 requests " +
				"waited, so it refused.", "waiting does not help"}},
		"shadow": {&quotav1.Decision{Shadowed: true, Reason: "client_limit", Limit: "tight", Limits: limits[2:]}, []string{
			"let it pass because of a mode SHADOW, and would have refused or held it (client_limit) 14 s ago.",
			"so it would have refused or held the request; it is in SHADOW."}},
		"marked": {&quotav1.Decision{Marked: true, Share: share}, []string{
			"admitted it with a congestion mark 14 s ago.", "No limit applied to it."}},
		"owner": {&quotav1.Decision{Waited: durationpb.New(1400 * time.Microsecond), HeldBy: "all-gateways",
			Limits: []*quotav1.LimitStep{
				{Limit: "all-gateways", Client: "app-7", Rate: 3, Burst: 3, Free: 2, Passes: true, Exact: true},
				{Limit: "other", Client: "app-7", Rate: 3, Burst: 3, Free: 2, Passes: true, Exact: true, Silent: true},
				{Limit: "third", Client: "app-7", Rate: 3, Burst: 3, Free: 2, Passes: true, Exact: true, Unasked: true}}},
			[]string{"admitted it, after it had waited for 1.4ms for limit all-gateways, 14 s ago.",
				"enough for the request; it is EXACT, so that is the one bucket of all gateways.",
				"it is EXACT, but the owner of the client's key did not answer, so the ledger counted.",
				"it is EXACT, but the gateway had asked about too many of its keys, so the ledger counted for this new one."}},
		"waited": {&quotav1.Decision{Waited: durationpb.New(20 * time.Millisecond), Share: &quotav1.ShareStep{Lost: true}},
			[]string{"admitted it, after it had waited for 20ms, 14 s ago.", "the share had expired"}},
	} {
		d := c.d
		d.Gateway, d.Tenant, d.Client, d.Pool, d.Cost, d.Ago = "gw-1", "acme", "app-7", "api", 2,
			durationpb.New(14*time.Second)
		s := serve(t, &present{decisions: &quotav1.FindDecisionsResponse{Agents: 2, Decisions: []*quotav1.Decision{d}}})
		r, err := s.FindDecisions(t.Context(), &quotav1.FindDecisionsRequest{Request: "r-1"})
		if err != nil || len(r.Decisions) != 1 || len(r.Notes) != 0 {
			t.Fatalf("%s: %v, %v", name, r, err)
		}
		got := strings.Join(r.Decisions[0].Steps, "\n")
		for _, want := range c.wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", name, want, got)
			}
		}
	}
}

// For an unknown request the answer says how much is remembered, and which gateways are missing.
func TestFindNoDecision(t *testing.T) {
	for want, r := range map[string]*quotav1.FindDecisionsResponse{
		"No agent is connected":                           {},
		"the agents remember no request that was refused": {Agents: 1},
		"the agents remember 12 requests that were refused, held, marked or let pass by SHADOW, the oldest for 3m0s": {
			Agents: 2, Remembered: 12, Back: durationpb.New(3 * time.Minute)},
		"1 of 2 agents did not answer, so their gateways are not counted: a-2": {
			Agents: 2, Silent: []string{"a-2"}},
	} {
		s := serve(t, &present{decisions: r})
		got, err := s.FindDecisions(t.Context(), &quotav1.FindDecisionsRequest{Request: "r-1"})
		if err != nil || !strings.Contains(strings.Join(got.GetNotes(), "\n"), want) {
			t.Errorf("want %q: %v, %v", want, got, err)
		}
		_, err = s.FindDecisions(t.Context(), &quotav1.FindDecisionsRequest{Request: strings.Repeat("x", 129)})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("a long ID: %v", err)
		}
	}
}
