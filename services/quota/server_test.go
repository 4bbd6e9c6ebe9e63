package quota_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// present is a Live with the answers that a test sets.
type present struct {
	overrides    int
	pools        map[string]*quotav1.PoolStatus
	quotas       map[string]*quotav1.QuotaStatus
	explanations []*quotav1.Explanation
	err          error
	doubts       map[string][]quota.Doubt
	unknown      []resource.Message  // that have doubts about their names
	deaf         bool                // no gateway has reported its names
	activity     []*quotav1.Activity // single rows, and clients
	silent       []string
	rehearsal    *quota.Rehearsal
	decisions    *quotav1.FindDecisionsResponse
	inForce      int
	atGateways   int
	revision     int64
	gateways     []*quotav1.Gateway
	usage        *quotav1.ListUsageResponse
	bucket       *quotav1.Bucket
	history      *quotav1.PoolHistory
}

func (p *present) Bucket(context.Context, string, string) (*quotav1.Bucket, error) {
	return proto.CloneOf(p.bucket), p.err
}

func (p *present) History(context.Context, string) (*quotav1.PoolHistory, error) {
	return p.history, p.err
}

func (p *present) Decisions(context.Context, string) (*quotav1.FindDecisionsResponse, error) {
	return proto.CloneOf(p.decisions), p.err
}

func (p *present) Rehearse(context.Context, []*quotav1.Resource, []string, []*quotav1.SupposedDemand) (*quota.Rehearsal, error) {
	return p.rehearsal, p.err
}

func (p *present) Findings(context.Context) []*quotav1.Finding { return nil }
func (p *present) States(context.Context, []string, []string) quota.States {
	return quota.States{Pools: p.pools, Quotas: p.quotas}
}
func (p *present) InForce(resource.Message) (int, int) { return p.inForce, p.atGateways }
func (p *present) Gateways() (int64, []*quotav1.Gateway, error) {
	var out []*quotav1.Gateway
	for _, g := range p.gateways {
		out = append(out, proto.CloneOf(g))
	}
	return p.revision, out, p.err
}
func (p *present) Usage(*quotav1.ListUsageRequest) (*quotav1.ListUsageResponse, error) {
	return p.usage, p.err
}
func (p *present) Overrides(string) int { return p.overrides }
func (p *present) Precision(*quotav1.Limit) (quotav1.Precision, string) {
	return quotav1.Precision_PRECISION_UNSPECIFIED, ""
}

func (p *present) Doubts(m resource.Message) ([]quota.Doubt, bool) {
	return p.doubts[m.GetName()], !p.deaf
}
func (p *present) Explain(context.Context, string, string) ([]*quotav1.Explanation, error) {
	return p.explanations, p.err
}

func (p *present) Activity(_ context.Context, s *quotav1.Selection, single bool) (*quotav1.TopResponse, error) {
	out := &quotav1.TopResponse{Agents: 2, Silent: p.silent}
	for _, m := range p.activity {
		if (m.Client != "") == (s.By == quotav1.Selection_CLIENT) && (s.Client == "" || s.Client == m.Client) {
			out.Rows = append(out.Rows, proto.CloneOf(m))
		}
	}
	return out, p.err
}

func serve(t *testing.T, live quota.Live, set ...func(*quota.Server)) quotav1.QuotaServiceClient {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	api := quota.New(storetest.Open(t), live)
	for _, s := range set {
		s(api)
	}
	api.Register(server)
	go func() { _ = server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:bufconn",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(); server.Stop() })
	return quotav1.NewQuotaServiceClient(conn)
}

func envelope(m proto.Message) *quotav1.Resource {
	switch m := m.(type) {
	case *quotav1.Pool:
		return &quotav1.Resource{Kind: &quotav1.Resource_Pool{Pool: m}}
	case *quotav1.Plan:
		return &quotav1.Resource{Kind: &quotav1.Resource_Plan{Plan: m}}
	case *quotav1.Tenant:
		return &quotav1.Resource{Kind: &quotav1.Resource_Tenant{Tenant: m}}
	case *quotav1.Quota:
		return &quotav1.Resource{Kind: &quotav1.Resource_Quota{Quota: m}}
	case *quotav1.Override:
		return &quotav1.Resource{Kind: &quotav1.Resource_Override{Override: m}}
	case *quotav1.Limit:
		return &quotav1.Resource{Kind: &quotav1.Resource_Limit{Limit: m}}
	}
	panic("not a resource")
}

func apply(t *testing.T, c quotav1.QuotaServiceClient, ms ...proto.Message) *quotav1.ApplyResponse {
	t.Helper()
	r := &quotav1.ApplyRequest{}
	for _, m := range ms {
		r.Resources = append(r.Resources, envelope(m))
	}
	got, err := c.Apply(t.Context(), r)
	if err != nil {
		t.Fatalf("Apply: %v", err)
	}
	return got
}

// fields returns the fields that a status names as wrong.
func fields(err error) []string {
	var names []string
	for _, d := range status.Convert(err).Details() {
		if b, ok := d.(*errdetails.BadRequest); ok {
			for _, v := range b.FieldViolations {
				names = append(names, v.Field)
			}
		}
	}
	return names
}

func wantCode(t *testing.T, err error, want codes.Code, text string) {
	t.Helper()
	if status.Code(err) != want || !strings.Contains(status.Convert(err).Message(), text) {
		t.Errorf("error %v, want %v with %q", err, want, text)
	}
}

var (
	api  = &quotav1.Pool{Name: "pools/api", Capacity: 100}
	acme = &quotav1.Tenant{Name: "tenants/acme", Weight: 3}
)

func TestStandardMethods(t *testing.T) {
	c, ctx := serve(t, nil), t.Context()
	created, err := c.CreatePool(ctx, &quotav1.CreatePoolRequest{PoolId: "api", Pool: &quotav1.Pool{Capacity: 100}})
	if err != nil {
		t.Fatal(err)
	}
	if created.Name != "pools/api" || created.Etag == "" || created.Sharing != quotav1.Sharing_MAX_MIN ||
		created.Queue.GetMaxRequests() != 1024 {
		t.Errorf("created %v: name, etag or defaults missing", created)
	}
	_, err = c.CreatePool(ctx, &quotav1.CreatePoolRequest{Pool: api})
	wantCode(t, err, codes.AlreadyExists, "pools/api")
	got, err := c.GetPool(ctx, &quotav1.GetPoolRequest{Name: "pools/api"})
	if err != nil || !proto.Equal(got, created) {
		t.Errorf("got %v (%v), want %v", got, err, created)
	}
	_, err = c.GetPool(ctx, &quotav1.GetPoolRequest{Name: "pools/none"})
	wantCode(t, err, codes.NotFound, "pools/none")
	_, err = c.GetPool(ctx, &quotav1.GetPoolRequest{Name: "tenants/acme"})
	wantCode(t, err, codes.InvalidArgument, "Tenant, want a Pool")
	if _, err := c.CreateTenant(ctx, &quotav1.CreateTenantRequest{TenantId: "acme",
		Tenant: &quotav1.Tenant{}}); err != nil {
		t.Fatal(err)
	}
	q, err := c.CreateQuota(ctx, &quotav1.CreateQuotaRequest{Parent: "tenants/acme", QuotaId: "api",
		Quota: &quotav1.Quota{Guaranteed: 5}})
	if err != nil || q.Name != "tenants/acme/quotas/api" {
		t.Fatalf("quota %v (%v)", q, err)
	}
	_, err = c.CreateLimit(ctx, &quotav1.CreateLimitRequest{Parent: "tenants/other",
		Limit: &quotav1.Limit{Name: "tenants/acme/limits/x", Rate: "1/s"}})
	wantCode(t, err, codes.InvalidArgument, "not of parent")
	_, err = c.CreateLimit(ctx, &quotav1.CreateLimitRequest{Parent: "tenants/other", LimitId: "x",
		Limit: &quotav1.Limit{Rate: "1/s"}})
	wantCode(t, err, codes.FailedPrecondition, "tenants/other")
	_, err = c.DeletePool(ctx, &quotav1.DeletePoolRequest{Name: "pools/api"})
	wantCode(t, err, codes.FailedPrecondition, "tenants/acme/quotas/api")
	if _, err := c.DeletePool(ctx, &quotav1.DeletePoolRequest{Name: "pools/api", Force: true}); err != nil {
		t.Error(err)
	}
	_, err = c.GetQuota(ctx, &quotav1.GetQuotaRequest{Name: q.Name})
	wantCode(t, err, codes.NotFound, q.Name)
	_, err = c.DeletePool(ctx, &quotav1.DeletePoolRequest{Name: "pools/api"})
	wantCode(t, err, codes.NotFound, "pools/api")
	if _, err := c.DeletePool(ctx, &quotav1.DeletePoolRequest{Name: "pools/api", AllowMissing: true}); err != nil {
		t.Error(err)
	}
}

func TestUpdate(t *testing.T) {
	c, ctx := serve(t, nil), t.Context()
	_, err := c.UpdateTenant(ctx, &quotav1.UpdateTenantRequest{Tenant: acme})
	wantCode(t, err, codes.NotFound, "tenants/acme")
	first, err := c.UpdateTenant(ctx, &quotav1.UpdateTenantRequest{Tenant: acme, AllowMissing: true,
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"weight"}}})
	if err != nil || first.Weight != 3 {
		t.Fatalf("%v (%v)", first, err)
	}
	second, err := c.UpdateTenant(ctx, &quotav1.UpdateTenantRequest{
		Tenant:     &quotav1.Tenant{Name: "tenants/acme", DisplayName: "Acme", Etag: first.Etag},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"display_name"}}})
	if err != nil || second.Weight != 3 || second.DisplayName != "Acme" || second.Etag == first.Etag {
		t.Fatalf("masked update gave %v (%v)", second, err)
	}
	_, err = c.UpdateTenant(ctx, &quotav1.UpdateTenantRequest{Tenant: first})
	wantCode(t, err, codes.Aborted, first.Etag)
	_, err = c.UpdateTenant(ctx, &quotav1.UpdateTenantRequest{Tenant: first,
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"weight"}}})
	wantCode(t, err, codes.Aborted, first.Etag)
	third, err := c.UpdateTenant(ctx, &quotav1.UpdateTenantRequest{Tenant: &quotav1.Tenant{Name: "tenants/acme"}})
	if err != nil || third.Weight != 1 || third.DisplayName != "" {
		t.Errorf("an update without mask is of all fields: %v (%v)", third, err)
	}
	for path, text := range map[string]string{"wieght": "wieght", "name": "cannot", "*": ""} {
		paths := []string{path}
		if path == "*" {
			paths = []string{"*", "weight"}
		}
		_, err = c.UpdateTenant(ctx, &quotav1.UpdateTenantRequest{Tenant: acme,
			UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}})
		wantCode(t, err, codes.InvalidArgument, text)
		if f := fields(err); !slices.Equal(f, []string{"update_mask"}) {
			t.Errorf("mask %q blames %v", path, f)
		}
	}
}

func TestUpdateOfANestedField(t *testing.T) {
	c, ctx := serve(t, nil), t.Context()
	apply(t, c, api)
	got, err := c.UpdatePool(ctx, &quotav1.UpdatePoolRequest{
		Pool: &quotav1.Pool{Name: "pools/api",
			Queue: &quotav1.Queue{MaxWait: durationpb.New(2e9), MaxRequests: 7}},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"queue.max_wait", "status"}}})
	if err != nil || got.Capacity != 100 || got.Queue.MaxWait.AsDuration() != 2e9 || got.Queue.MaxRequests != 1024 {
		t.Errorf("%v (%v)", got, err)
	}
	_, err = c.UpdatePool(ctx, &quotav1.UpdatePoolRequest{Pool: &quotav1.Pool{Name: "pools/api"},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"capacity"}}})
	wantCode(t, err, codes.InvalidArgument, "pool.capacity")
}

func TestConcurrentMaskedUpdatesAllLand(t *testing.T) {
	c, ctx := serve(t, nil), t.Context()
	apply(t, c, api)
	updates := []*quotav1.UpdatePoolRequest{
		{Pool: &quotav1.Pool{Name: "pools/api", Capacity: 7},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"capacity"}}},
		{Pool: &quotav1.Pool{Name: "pools/api", OnLoss: quotav1.OnLoss_OPEN},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"on_loss"}}},
		{Pool: &quotav1.Pool{Name: "pools/api", Queue: &quotav1.Queue{MaxRequests: 9}},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"queue.max_requests"}}},
	}
	errs := make(chan error)
	for _, u := range updates {
		go func() { _, err := c.UpdatePool(ctx, u); errs <- err }()
	}
	for range updates {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	got, err := c.GetPool(ctx, &quotav1.GetPoolRequest{Name: "pools/api"})
	if err != nil || got.Capacity != 7 || got.OnLoss != quotav1.OnLoss_OPEN || got.Queue.MaxRequests != 9 {
		t.Errorf("an update was lost: %v (%v)", got, err)
	}
}

func TestValidateOnlyWritesNothing(t *testing.T) {
	c, ctx := serve(t, nil), t.Context()
	if _, err := c.CreatePool(ctx, &quotav1.CreatePoolRequest{Pool: api, ValidateOnly: true}); err != nil {
		t.Fatal(err)
	}
	got, err := c.Apply(ctx, &quotav1.ApplyRequest{ValidateOnly: true,
		Resources: []*quotav1.Resource{envelope(api), envelope(acme)}})
	if err != nil || got.Outcomes[0] != quotav1.ApplyResponse_CREATED {
		t.Fatalf("%v (%v)", got, err)
	}
	list, err := c.ListPools(ctx, &quotav1.ListPoolsRequest{})
	if err != nil || len(list.Pools) != 0 {
		t.Errorf("validate_only wrote %v (%v)", list, err)
	}
	apply(t, c, api)
	if _, err := c.DeletePool(ctx, &quotav1.DeletePoolRequest{Name: "pools/api", ValidateOnly: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetPool(ctx, &quotav1.GetPoolRequest{Name: "pools/api"}); err != nil {
		t.Errorf("validate_only deleted: %v", err)
	}
}

func TestListPages(t *testing.T) {
	c, ctx := serve(t, nil), t.Context()
	var all []string
	for i := range 5 {
		name := fmt.Sprintf("tenants/t%d", i)
		limit := &quotav1.Limit{Name: name + "/limits/l", Rate: "1/s"}
		apply(t, c, &quotav1.Tenant{Name: name}, limit)
		all = append(all, limit.Name)
	}
	var got []string
	r := &quotav1.ListLimitsRequest{Parent: "tenants/*", PageSize: 2}
	for pages := 1; ; pages++ {
		page, err := c.ListLimits(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range page.Limits {
			got = append(got, l.Name)
		}
		if r.PageToken = page.NextPageToken; r.PageToken == "" {
			if pages != 3 {
				t.Errorf("%d pages of 2 for 5", pages)
			}
			break
		}
	}
	if !slices.Equal(got, all) {
		t.Errorf("listed %v, want %v", got, all)
	}
	one, err := c.ListLimits(ctx, &quotav1.ListLimitsRequest{Parent: "tenants/t3"})
	if err != nil || len(one.Limits) != 1 || one.Limits[0].Name != "tenants/t3/limits/l" {
		t.Errorf("of one tenant: %v (%v)", one, err)
	}
	page, err := c.ListTenants(ctx, &quotav1.ListTenantsRequest{PageSize: 2})
	if err != nil || len(page.Tenants) != 2 {
		t.Fatalf("%v (%v)", page, err)
	}
	_, err = c.ListPools(ctx, &quotav1.ListPoolsRequest{PageToken: page.NextPageToken})
	wantCode(t, err, codes.InvalidArgument, "page_token")
	_, err = c.ListLimits(ctx, &quotav1.ListLimitsRequest{Parent: "acme"})
	wantCode(t, err, codes.InvalidArgument, "parent")
}

func TestStatusComesFromLive(t *testing.T) {
	c := serve(t, &present{
		pools:  map[string]*quotav1.PoolStatus{"pools/api": {Demand: 12, InfeasibleGuarantees: true}},
		quotas: map[string]*quotav1.QuotaStatus{"tenants/acme/quotas/api": {Share: 9}},
	})
	apply(t, c, api, acme, &quotav1.Quota{Name: "tenants/acme/quotas/api", Guaranteed: 500})
	p, err := c.GetPool(t.Context(), &quotav1.GetPoolRequest{Name: "pools/api"})
	if err != nil || p.Status.GetDemand() != 12 || !p.Status.InfeasibleGuarantees {
		t.Errorf("%v (%v)", p, err)
	}
	q, err := c.ListQuotas(t.Context(), &quotav1.ListQuotasRequest{Parent: "tenants/acme"})
	if err != nil || q.Quotas[0].Status.GetShare() != 9 {
		t.Errorf("%v (%v)", q, err)
	}
}

func TestWhy(t *testing.T) {
	live := &present{explanations: []*quotav1.Explanation{{
		Tenant: "tenants/acme", Pool: "pools/api", Capacity: 100, Demand: 120, Weight: 3,
		FairRate: 25, Share: 75, BoundBy: quotav1.Bound_POOL, Price: 0.5,
	}}}
	c, ctx := serve(t, live), t.Context()
	got, err := c.Why(ctx, &quotav1.WhyRequest{Tenant: "tenants/acme", Pool: "pools/api"})
	want := "Now acme gets 75.0/s of pool api: its demand 120.0/s is above the fair share 25.0/s × weight 3 = 75.0/s; " +
		"the pool's capacity of 100.0/s is used up (price 0.5)."
	if err != nil || got.Explanations[0].Sentence != want {
		t.Errorf("%v (%v)", got, err)
	}
	live.explanations = nil
	_, err = c.Why(ctx, &quotav1.WhyRequest{Tenant: "tenants/acme"})
	wantCode(t, err, codes.NotFound, "tenants/acme")
	apply(t, c, acme)
	if got, err := c.Why(ctx, &quotav1.WhyRequest{Tenant: "tenants/acme"}); err != nil || len(got.Explanations) != 0 {
		t.Errorf("%v (%v)", got, err)
	}
	live.err = errors.New("gw-coordinator-2 leads")
	_, err = c.Why(ctx, &quotav1.WhyRequest{Tenant: "tenants/acme"})
	wantCode(t, err, codes.Unavailable, "gw-coordinator-2 leads")
	_, err = c.Why(ctx, &quotav1.WhyRequest{Tenant: "acme"})
	wantCode(t, err, codes.InvalidArgument, "tenants/TENANT")
}

// A limit refuses, and why names it, with how much, since when and what it lets pass.
func TestWhyNamesTheLimit(t *testing.T) {
	minute, since := durationpb.New(time.Minute), durationpb.New(190*time.Second)
	live := &present{
		explanations: []*quotav1.Explanation{{Tenant: "tenants/acme", Pool: "pools/api", Capacity: 100, Demand: 0.3,
			Weight: 1, Share: 100, BoundBy: quotav1.Bound_DEMAND}},
		activity: []*quotav1.Activity{
			{Tenant: "acme", Pool: "api", Gateway: "gw-1", Admitted: 15, Refused: 1180, ClientLimit: 1180, Window: minute},
			{Tenant: "acme", Pool: "api", Gateway: "gw-2", Admitted: 5, Shadowed: 2, LimitShadowed: 2, Window: minute},
			{Tenant: "acme", Limit: "per-client", Gateway: "gw-1", Refused: 1180, ClientLimit: 1180, Window: minute,
				Since: since},
			{Tenant: "acme", Limit: "strict", Gateway: "gw-2", Shadowed: 2, Window: minute, Since: since},
			{Tenant: "acme", Limit: "per-client", Client: "app-7", Refused: 900, Error: 3},
		},
		silent: []string{"agent-3"},
	}
	c, ctx := serve(t, live), t.Context()
	apply(t, c, acme, &quotav1.Limit{Name: "tenants/acme/limits/per-client", Rate: "3/s"},
		&quotav1.Limit{Name: "tenants/-/limits/strict", Rate: "1/s", Mode: quotav1.Mode_SHADOW},
		&quotav1.Limit{Name: "tenants/acme/limits/idle", Rate: "10/s"})
	told := func(r *quotav1.WhyRequest) string {
		t.Helper()
		r.Tenant = "tenants/acme"
		got, err := c.Why(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, e := range got.Explanations {
			all = append(all, e.Sentence)
		}
		for _, l := range got.Limits {
			all = append(all, l.Sentence)
		}
		for _, m := range got.Clients {
			all = append(all, fmt.Sprintf("client %s %d", m.Client, m.Refused))
		}
		return strings.Join(append(all, got.Notes...), "\n")
	}
	silent := "1 of 2 agents did not answer, so their gateways are not counted: agent-3."
	byLimit := "Of 1200 requests of acme in the last 60 s limit per-client refused 1180 (98 %) at once, and has done so " +
		"for 3m10s: it lets each client have 3.0/s, burst 3."
	byShadow := "Of 1200 requests of acme in the last 60 s limit strict would, if it were enforced, have refused or held " +
		"2 (0.17 %), and has done so for 3m10s: it lets each client have 1.0/s, burst 1; it is in SHADOW, so nothing was " +
		"refused."
	for _, one := range []struct {
		name string
		r    *quotav1.WhyRequest
		want []string
	}{
		{"all", &quotav1.WhyRequest{}, []string{"Now acme gets all that its limits let pass of pool api and may take 100.0/s: " +
			"its demand is 18.0/min, and the pool's capacity of 100.0/s is not used up. Of 1200 requests in the last 60 s: 20 " +
			"admitted, 1180 refused by limits, 2 let pass by SHADOW.", byLimit, byShadow, "client app-7 900", silent}},
		{"one limit", &quotav1.WhyRequest{Limit: "per-client"}, []string{byLimit, "client app-7 900", silent}},
		{"an idle limit", &quotav1.WhyRequest{Limit: "idle"}, []string{"Limit idle has stopped no request of acme in the " +
			"last minute: it lets each client have 10.0/s, burst 10.", "client app-7 900", silent}},
		{"a client", &quotav1.WhyRequest{Client: "bob"}, []string{byLimit, byShadow, `Client "bob" is not among the ` +
			"clients of acme that were refused, held or let pass by SHADOW the most in about the last two minutes: that " +
			"happened to few of its requests, or to none.", silent}},
		{"shadow", &quotav1.WhyRequest{Shadow: true}, []string{byShadow, "Enforcing all that is in SHADOW would have " +
			"refused or held 2 of 1200 requests (0.17 %) of acme in the last 60 s.", silent}},
	} {
		if got, want := told(one.r), strings.Join(one.want, "\n"); got != want {
			t.Errorf("%s:\n got %s\nwant %s", one.name, got, want)
		}
	}
	_, err := c.Why(ctx, &quotav1.WhyRequest{Tenant: "tenants/acme", Limit: "none"})
	wantCode(t, err, codes.NotFound, "limits/none")
	live.explanations, live.activity, live.silent = nil, nil, nil
	if got, want := told(&quotav1.WhyRequest{}), "acme has sent no request to a configured pool in the last minute."; got != want {
		t.Errorf("idle: %q, want %q", got, want)
	}
	top, err := c.Top(ctx, &quotav1.TopRequest{})
	if err != nil || top.Agents != 2 {
		t.Errorf("top: %v (%v)", top, err)
	}
	_, err = c.Top(ctx, &quotav1.TopRequest{Selection: &quotav1.Selection{Most: 5000}})
	wantCode(t, err, codes.InvalidArgument, "1000")
}

func TestApplyIsAllOrNothing(t *testing.T) {
	c, ctx := serve(t, nil), t.Context()
	bad := &quotav1.Limit{Name: "tenants/acme/limits/x", Rate: "5/s", Burst: 0.5}
	_, err := c.Apply(ctx, &quotav1.ApplyRequest{Resources: []*quotav1.Resource{envelope(api), envelope(acme),
		envelope(bad)}})
	wantCode(t, err, codes.InvalidArgument, "at least 1")
	if f := fields(err); !slices.Equal(f, []string{"resources[2].limit.burst"}) {
		t.Errorf("blames %v", f)
	}
	orphan := &quotav1.Quota{Name: "tenants/acme/quotas/nowhere"}
	_, err = c.Apply(ctx, &quotav1.ApplyRequest{Resources: []*quotav1.Resource{envelope(api), envelope(acme),
		envelope(orphan)}})
	wantCode(t, err, codes.FailedPrecondition, "pools/nowhere")
	info := status.Convert(err).Details()[0].(*errdetails.ResourceInfo)
	if info.ResourceName != orphan.Name {
		t.Errorf("blames %q", info.ResourceName)
	}
	_, err = c.Apply(ctx, &quotav1.ApplyRequest{Resources: []*quotav1.Resource{envelope(api), envelope(api)}})
	wantCode(t, err, codes.InvalidArgument, "twice")
	_, err = c.Apply(ctx, &quotav1.ApplyRequest{Resources: []*quotav1.Resource{{}}})
	wantCode(t, err, codes.InvalidArgument, "resources[0]")
	if list, err := c.ListPools(ctx, &quotav1.ListPoolsRequest{}); err != nil || len(list.Pools) != 0 {
		t.Errorf("half applied: %v (%v)", list, err)
	}
	got := apply(t, c, acme, api)
	if got.Resources[0].GetTenant().GetEtag() == "" || got.Revision == 0 {
		t.Errorf("%v", got)
	}
}

// A name that no gateway knows is accepted with a warning, shown with the limit, and refused with strict, which also
// refuses where no gateway can say.
func TestUnknownNames(t *testing.T) {
	live := &present{doubts: map[string][]quota.Doubt{"tenants/-/limits/l": {
		{Field: "identity", Message: "is not known"}, {Message: "not enforced by gw-1"}}}}
	c := serve(t, live)
	l := &quotav1.Limit{Name: "tenants/-/limits/l", Rate: "1/s", Identity: "usr"}
	got := apply(t, c, l)
	if len(got.Warnings) != 1 || got.Warnings[0].Field != "resources[0].limit.identity" ||
		got.Warnings[0].Resource != l.Name {
		t.Errorf("warnings %v", got.Warnings)
	}
	shown, err := c.GetLimit(t.Context(), &quotav1.GetLimitRequest{Name: l.Name})
	if err != nil || !slices.Equal(shown.GetStatus().GetWarnings(), []string{"is not known", "not enforced by gw-1"}) {
		t.Errorf("shown %v (%v)", shown, err)
	}
	strict := &quotav1.ApplyRequest{Resources: []*quotav1.Resource{envelope(l)}, Strict: true}
	_, err = c.Apply(t.Context(), strict)
	if status.Code(err) != codes.InvalidArgument ||
		!strings.Contains(err.Error(), "resources[0].limit.identity: is not known") {
		t.Errorf("strict: %v", err)
	}
	live.doubts, live.deaf = nil, true
	if _, err = c.Apply(t.Context(), strict); status.Code(err) != codes.FailedPrecondition ||
		!strings.Contains(err.Error(), "no gateway has reported") {
		t.Errorf("strict without gateways: %v", err)
	}
}

// The 65th limit of a tenant, those of tenants/- included, is refused for each
// caller: the gateways would not enforce it.
func TestTooManyLimits(t *testing.T) {
	c := serve(t, nil)
	limit := func(tenant string, i int) proto.Message {
		return &quotav1.Limit{Name: fmt.Sprintf("tenants/%s/limits/l%d", tenant, i), Rate: "1/s"}
	}
	ms := []proto.Message{&quotav1.Tenant{Name: "tenants/acme"}, limit("-", 0), limit("-", 100)}
	for i := range 63 {
		ms = append(ms, limit("acme", i)) // l0 replaces the inherited one
	}
	apply(t, c, ms...)
	for _, one := range []proto.Message{limit("acme", 64), limit("-", 64)} {
		_, err := c.Apply(t.Context(), &quotav1.ApplyRequest{Resources: []*quotav1.Resource{envelope(one)}})
		if status.Code(err) != codes.FailedPrecondition ||
			!strings.Contains(err.Error(), "tenants/acme would have 65") {
			t.Errorf("%v: %v", one, err)
		}
	}
	_, err := c.CreateLimit(t.Context(), &quotav1.CreateLimitRequest{Parent: "tenants/acme",
		Limit: limit("acme", 64).(*quotav1.Limit)})
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("created: %v", err)
	}
	apply(t, c, limit("acme", 5), &quotav1.Tenant{Name: "tenants/other"}, limit("other", 64))
}
