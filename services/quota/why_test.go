package quota_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// quiet explains a pool only if it is asked about the pool, as a coordinator does for a tenant that asked for nothing
// in the last round.
type quiet struct{ *present }

func (q quiet) Explain(_ context.Context, tenant, pool string) ([]*quotav1.Explanation, error) {
	if pool == "" {
		return nil, q.err
	}
	return []*quotav1.Explanation{{Tenant: tenant, Pool: pool, Capacity: 300, Weight: 1, Share: 37.5,
		BoundBy: quotav1.Bound_DEMAND}}, q.err
}

// Requests that top counts are in the answer of why, too, though the last round counted none. The tenant "-" is named
// as such.
func TestWhyHasTheRequestsThatTopHas(t *testing.T) {
	live := &present{activity: []*quotav1.Activity{{Tenant: "-", Pool: "api", Gateway: "gw-1", Admitted: 60,
		Window: durationpb.New(10 * time.Second)}}}
	got, err := serve(t, quiet{live}).Why(t.Context(), &quotav1.WhyRequest{Tenant: "tenants/-"})
	if err != nil || len(got.GetExplanations()) != 1 {
		t.Fatalf("%v (%v)", got, err)
	}
	const want = `In the coordinator's last round tenant "-" asked for nothing of pool api; its share stands at 37.5/s. ` +
		"Of 60 requests in the last 10 s: 60 admitted."
	if got := got.GetExplanations()[0].GetSentence(); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	const meaning = `Tenant "-" counts all requests that name no tenant, or a tenant that is not configured.`
	if notes := strings.Join(got.GetNotes(), "\n"); notes != meaning {
		t.Errorf("notes %q, want %q", notes, meaning)
	}
}

// A coordinator that knows no share of the tenant does not hide its requests.
func TestWhyWithoutShares(t *testing.T) {
	live := &present{activity: []*quotav1.Activity{{Tenant: "acme", Pool: "api", Gateway: "gw-1", Admitted: 60,
		Window: durationpb.New(10 * time.Second)}}}
	c := serve(t, live)
	apply(t, c, api, acme)
	for _, one := range []struct{ pool, sends, want string }{
		{"", "api", "acme has no share of a pool yet. Of 60 requests in the last 10 s: 60 admitted."},
		{"pools/api", "api", "acme has no share of pool api yet. Of 60 requests in the last 10 s: 60 admitted."},
		{"pools/api", "other", "acme has sent no request to pool api in the last minute, and has no share of it."},
	} {
		live.activity[0].Pool = one.sends
		got, err := c.Why(t.Context(), &quotav1.WhyRequest{Tenant: "tenants/acme", Pool: one.pool})
		if notes := strings.Join(got.GetNotes(), "\n"); err != nil || notes != one.want {
			t.Errorf("%q, want %q (%v)", notes, one.want, err)
		}
	}
}

// A tenant that is not configured is NOT_FOUND, with the tenant that its requests count for: in why, also of a limit
// of every tenant, and in top.
func TestStrangersCountAsTheDefaultTenant(t *testing.T) {
	c, ctx := serve(t, &present{}), t.Context()
	apply(t, c, api, &quotav1.Limit{Name: "tenants/-/limits/strict", Rate: "1/s"})
	const want = `tenants/stranger: not found; its requests count as those of tenant "-" (tenants/-), except at gateways ` +
		"whose unknown_tenant is REJECT or BYPASS"
	for _, r := range []*quotav1.WhyRequest{{}, {Pool: "pools/api"}, {Limit: "strict"}, {Limit: "none"}, {Client: "bob"}} {
		r.Tenant = "tenants/stranger"
		_, err := c.Why(ctx, r)
		wantCode(t, err, codes.NotFound, want)
	}
	_, err := c.Top(ctx, &quotav1.TopRequest{Selection: &quotav1.Selection{Tenant: "stranger"}})
	wantCode(t, err, codes.NotFound, want)
}

func (p *present) Unknown(most int, keep func(resource.Message) bool) (sentences []string) {
	for _, m := range p.unknown {
		if keep(m) && len(sentences) < most {
			sentences = append(sentences, m.GetName())
		}
	}
	return sentences
}

// A limit with a cost that gateways do not know is in no count. So why and top say it: of the tenant's limits, of the
// limits of every tenant, and of pools.
func TestUnknownNamesAreShown(t *testing.T) {
	own := &quotav1.Limit{Name: "tenants/acme/limits/output", Rate: "1/s", Cost: "output", Pools: []string{"api"}}
	every := &quotav1.Limit{Name: "tenants/-/limits/input", Rate: "1/s", Cost: "input"}
	other := &quotav1.Limit{Name: "tenants/globex/limits/output", Rate: "1/s", Cost: "output"}
	pool := &quotav1.Pool{Name: "pools/api", Capacity: 300, Cost: "output"}
	live := &present{unknown: []resource.Message{pool, every, own, other}, activity: []*quotav1.Activity{{Tenant: "acme",
		Pool: "api", Gateway: "gw-1", Admitted: 60, Window: durationpb.New(10 * time.Second)}}}
	c, ctx := serve(t, quiet{live}), t.Context()
	apply(t, c, pool, acme, &quotav1.Tenant{Name: "tenants/globex"}, own, every, other)
	shown := func(notes []string) string {
		names := slices.DeleteFunc(notes, func(note string) bool { return strings.Contains(note, " ") })
		return strings.ReplaceAll(strings.Join(names, " "), "tenants/", "")
	}
	for _, tc := range []struct {
		r    *quotav1.WhyRequest
		want string
	}{
		{&quotav1.WhyRequest{Tenant: "tenants/acme"}, "pools/api -/limits/input acme/limits/output"},
		{&quotav1.WhyRequest{Tenant: "tenants/acme", Limit: "output"}, "acme/limits/output"},
		{&quotav1.WhyRequest{Tenant: "tenants/globex", Pool: "pools/api"},
			"pools/api -/limits/input globex/limits/output"},
		{&quotav1.WhyRequest{Tenant: "tenants/acme", Shadow: true}, ""},
	} {
		got, err := c.Why(ctx, tc.r)
		if notes := shown(got.GetNotes()); err != nil || notes != tc.want {
			t.Errorf("%v: %s, want %s (%v)", tc.r, notes, tc.want, err)
		}
	}
	for _, tc := range []struct {
		s    *quotav1.Selection
		want string
	}{
		{nil, "pools/api"},
		{&quotav1.Selection{Limit: "output"}, "acme/limits/output"},
		{&quotav1.Selection{Limit: "output", Tenant: "globex"}, "globex/limits/output"},
		{&quotav1.Selection{Limit: "output", Tenant: "acme", Pool: "b"}, ""},
		{&quotav1.Selection{Pool: "b"}, "-/limits/input"},
	} {
		got, err := c.Top(ctx, &quotav1.TopRequest{Selection: tc.s})
		if notes := shown(got.GetNotes()); err != nil || notes != tc.want {
			t.Errorf("%v: %s, want %s (%v)", tc.s, notes, tc.want, err)
		}
	}
}
