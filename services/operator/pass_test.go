package operator

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/quota/quotatest"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

func claimed(m resource.Message) claim {
	return claim{&object{Name: m.GetName(), Metadata: metadata{UID: m.GetName()}}, m}
}

// leading is a pass of an operator that needs not renew its lead.
func leading(api quotav1.QuotaServiceClient) *pass {
	o := New(Options{API: api, Set: "kubernetes", Resync: time.Minute})
	o.lease.seen = time.Now().Add(time.Hour)
	return &pass{Operator: o, verdicts: map[*object]verdict{}, denied: map[string]verdict{}}
}

// Of many objects the wrong ones are refused, each with the API's message, and the others applied.
func TestTheWrongOnesAreRefusedAlone(t *testing.T) {
	api := quotatest.Client(t, quota.New(storetest.Open(t), nil))
	theirs := &quotav1.Pool{Name: "pools/theirs", Capacity: 1}
	if _, err := api.Apply(t.Context(), &quotav1.ApplyRequest{Set: "git",
		Resources: []*quotav1.Resource{resource.Of(theirs)}}); err != nil {
		t.Fatal(err)
	}
	all := []claim{claimed(&quotav1.Pool{Name: "pools/theirs", Capacity: 2}),
		claimed(&quotav1.Tenant{Name: "tenants/acme"}), claimed(&quotav1.Tenant{Name: "tenants/dart"}),
		claimed(&quotav1.Limit{Name: "tenants/acme/limits/a", Rate: "1/s"}),
		claimed(&quotav1.Limit{Name: "tenants/ghost/limits/a", Rate: "1/s"}),
		claimed(&quotav1.Limit{Name: "tenants/dart/limits/a", Rate: "1/s"})}
	p := leading(api)
	if err := p.apply(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ reason, word string }{{Conflict, "another set: git"}, {Applied, ""}, {Applied, ""},
		{Applied, ""}, {Refused, "tenants/ghost"}, {Applied, ""}} {
		if got := p.verdicts[all[i].object]; got.reason != want.reason || !strings.Contains(got.message, want.word) {
			t.Errorf("%s: %+v, want %+v", all[i].Name, got, want)
		}
	}
	if len(p.denied) != 2 {
		t.Error("what was refused is not tried again")
	}
	first, err := api.ListRevisions(t.Context(), &quotav1.ListRevisionsRequest{PageSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.apply(t.Context(), all[1:4]); err != nil {
		t.Fatal(err)
	}
	second, err := api.ListRevisions(t.Context(), &quotav1.ListRevisionsRequest{PageSize: 1})
	if err != nil || second.GetRevisions()[0].GetRevision() != first.GetRevisions()[0].GetRevision() {
		t.Errorf("what is in force already is a revision: %v, %v (%v)", first, second, err)
	}
}

// A resource is deleted only if the set owns it and nothing needs it.
func TestDelete(t *testing.T) {
	api := quotatest.Client(t, quota.New(storetest.Open(t), nil))
	if _, err := api.Apply(t.Context(), &quotav1.ApplyRequest{Set: "kubernetes", Resources: []*quotav1.Resource{
		resource.Of(&quotav1.Plan{Name: "plans/gold"}), resource.Of(&quotav1.Tenant{Name: "tenants/acme", Plan: "gold"}),
		resource.Of(&quotav1.Limit{Name: "tenants/acme/limits/a", Rate: "1/s"})}}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.CreatePool(t.Context(), &quotav1.CreatePoolRequest{Pool: &quotav1.Pool{Name: "pools/api",
		Capacity: 1}}); err != nil {
		t.Fatal(err)
	}
	p := leading(api)
	tenant := &object{Name: "tenants/acme", kind: resource.Tenant}
	if err := p.delete(t.Context(), tenant); !refused(err) || !strings.Contains(err.Error(), "limits/a") {
		t.Errorf("a tenant in use: %v", err)
	}
	plan := &object{Name: "plans/gold", kind: resource.Plan}
	if err := p.delete(t.Context(), plan); !refused(err) || !strings.Contains(err.Error(), "tenants/acme") {
		t.Errorf("a plan in use: %v", err)
	}
	for _, o := range []*object{{Name: "tenants/acme/limits/a", kind: resource.Limit}, tenant, tenant, plan,
		{Name: "pools/api", kind: resource.Pool}, {Name: "no name", kind: resource.Pool}} {
		if err := p.delete(t.Context(), o); err != nil {
			t.Errorf("%s: %v", o.Name, err)
		}
	}
	if _, err := api.GetPool(t.Context(), &quotav1.GetPoolRequest{Name: "pools/api"}); err != nil {
		t.Errorf("a pool that the set does not own: %v", err)
	}
	if _, err := api.GetTenant(t.Context(), &quotav1.GetTenantRequest{Name: "tenants/acme"}); err == nil {
		t.Error("the tenant is still there")
	}
}

// An object that is too large for the API is refused alone.
func TestATooLargeObjectIsRefusedAlone(t *testing.T) {
	api := quotatest.Client(t, quota.New(storetest.Open(t), nil))
	large := &quotav1.Limit{Name: "tenants/acme/limits/large", Rate: "1/s"}
	for i := range 5000 {
		large.Overrides = append(large.Overrides, &quotav1.InlineOverride{
			Client: fmt.Sprintf("%0240d", i), Rate: "2/s", Burst: 2})
	}
	all := []claim{claimed(&quotav1.Tenant{Name: "tenants/acme"}), claimed(large),
		claimed(&quotav1.Limit{Name: "tenants/acme/limits/a", Rate: "1/s"})}
	p := leading(api)
	if err := p.apply(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{Applied, Refused, Applied} {
		if got := p.verdicts[all[i].object]; got.reason != want {
			t.Errorf("%s: %s %.200s, want %s", all[i].Name, got.reason, got.message, want)
		}
	}
}

// counting counts the calls of Apply.
type counting struct {
	quotav1.QuotaServiceClient
	calls int
}

func (c *counting) Apply(ctx context.Context, r *quotav1.ApplyRequest, o ...grpc.CallOption) (*quotav1.ApplyResponse,
	error) {
	c.calls++
	return c.QuotaServiceClient.Apply(ctx, r, o...)
}

// Conflicting objects cost one call more and no revision, and while nothing changes they are left out
// for longer and longer.
func TestConflictsCostOneCallAndNoRevision(t *testing.T) {
	const objects = 4000
	for _, conflicts := range []int{0, 1, 40, 400} {
		t.Run(fmt.Sprint(conflicts), func(t *testing.T) {
			api := &counting{QuotaServiceClient: quotatest.Client(t, quota.New(storetest.Open(t), nil))}
			all := []claim{claimed(&quotav1.Tenant{Name: "tenants/acme"})}
			theirs := &quotav1.ApplyRequest{Set: "git",
				Resources: []*quotav1.Resource{resource.Of(&quotav1.Tenant{Name: "tenants/theirs"})}}
			for i := range objects - 1 {
				m := &quotav1.Tenant{Name: fmt.Sprintf("tenants/t%d", i)}
				if all = append(all, claimed(m)); i%(objects/400) == 0 && i/(objects/400) < conflicts {
					theirs.Resources = append(theirs.Resources, resource.Of(m))
				}
			}
			if _, err := api.Apply(t.Context(), theirs); err != nil {
				t.Fatal(err)
			}
			p := leading(api)
			for try, want := range []struct{ most, revisions int }{{2, 1}, {1, 0}, {2, 0}, {1, 0}} {
				before, calls := revisions(t, api), api.calls
				p.verdicts, p.denied = map[*object]verdict{}, map[string]verdict{}
				p.objects = nil
				for _, c := range all {
					p.objects = append(p.objects, c.object)
				}
				if err := p.apply(t.Context(), p.waiting(all)); err != nil {
					t.Fatal(err)
				}
				if n := revisions(t, api) - before; api.calls-calls > want.most || n != want.revisions {
					t.Errorf("pass %d: %d calls, %d revisions; want at most %d, %d", try, api.calls-calls, n, want.most,
						want.revisions)
				}
				found := 0
				for _, v := range p.verdicts {
					if v.reason == Conflict {
						found++
					}
				}
				if found != conflicts || len(p.verdicts) != objects {
					t.Errorf("pass %d: %d conflicts of %d verdicts", try, found, len(p.verdicts))
				}
				pause := time.Until(p.backOff())
				if try == 1 { // the pause is over
					p.refused.until = time.Time{}
				}
				if least := RetryEvery + RetryEvery/2; try == 2 && pause < least {
					t.Errorf("the pause after the same refusals is %v, want %v at least", pause, least)
				}
			}
		})
	}
}

// revisions returns the number of revisions in the history.
func revisions(t *testing.T, api quotav1.QuotaServiceClient) int {
	t.Helper()
	got, err := api.ListRevisions(t.Context(), &quotav1.ListRevisionsRequest{PageSize: 100})
	if err != nil {
		t.Fatal(err)
	}
	return len(got.GetRevisions())
}
