package coordinator_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/store/storetest"
)

// The leader's session ends, and the other coordinator leads. The test measures what agents are sent of the
// configuration, when the last agent has its first leases, and by how much a share differs in them from those before.
// Every tenant has its own limit.
func BenchmarkFailover(b *testing.B) {
	const agents = 10
	for _, tenants := range []int{1_000, 100_000} {
		f := newFailover(b, tenants)
		for _, digest := range []resource.Digest{0, f.digest} { // 0: an agent of an older release
			b.Run(fmt.Sprintf("tenants=%d/agents=%d/whole=%v", tenants, agents, digest == 0), func(b *testing.B) {
				f.join(b, agents, digest)
				for b.Loop() {
					f.failOver(b)
				}
			})
		}
	}
}

// failover is two coordinators of default settings, and agents.
type failover struct {
	prefix    string
	etcd      *storetest.Etcd
	digest    resource.Digest // of the configuration
	addresses []string
	agents    []*agent
}

func newFailover(b *testing.B, tenants int) *failover {
	f := &failover{etcd: storetest.Shared(b), prefix: strings.TrimSuffix(storetest.Prefix(b), "/")}
	resources := []*quotav1.Resource{pool("api", 300)}
	for i := range tenants {
		name := fmt.Sprintf("t%06d", i)
		resources = append(resources, tenant(name, 1), &quotav1.Resource{Kind: &quotav1.Resource_Limit{
			Limit: &quotav1.Limit{Name: "tenants/" + name + "/limits/each", Rate: "100/s", Burst: 100}}})
	}
	configuration := store.Open(f.etcd.Client(b), f.prefix+"/v1alpha1/")
	stored, err := configuration.Replace(b.Context(), store.Note{}, resources, 0)
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range stored.Resources {
		f.digest = f.digest.Replace(nil, r)
	}
	for _, name := range []string{"one", "two"} {
		r := startWith(b, f.etcd.Endpoint, f.prefix, name, insecure.NewCredentials(), func(c *coordinator.Config) {
			c.SessionTTL, c.Round, c.Settle = 5*time.Second, 250*time.Millisecond, 2*time.Second
		})
		began := time.Now()
		for code := 0; code != 200; { // a hundred thousand tenants take longer than a test may wait
			time.Sleep(20 * time.Millisecond)
			if code, _ = r.get("/readyz"); time.Since(began) > loading {
				b.Fatalf("%s is not ready %s after its start", name, loading)
			}
		}
		b.Logf("%s was ready %s after its start", name, time.Since(began).Round(10*time.Millisecond))
		f.addresses = append(f.addresses, r.c.Address())
	}
	return f
}

// loading bounds the time that a coordinator may take to read the configuration, on a busy machine.
const loading = 5 * time.Minute

// join connects agents that hold the configuration with the digest, each with demand of two
// tenants, and waits for their leases.
func (f *failover) join(b *testing.B, agents int, digest resource.Digest) {
	f.agents = nil
	for i := range agents {
		a := &agent{name: fmt.Sprintf("x%02d", i), demand: map[string]float64{"t000001": 40, "t000002": 80}, lean: true,
			digest: digest}
		a.run(b, f.addresses)
		f.agents = append(f.agents, a)
	}
	for _, a := range f.agents {
		a.until(b, "has its share", func() bool { return near(a.share("t000001"), 150) && near(a.share("t000002"), 150) })
	}
}

func (f *failover) failOver(b *testing.B) {
	before, shares := epoch(f.agents[0]), make([]float64, len(f.agents))
	for i, a := range f.agents {
		a.note(func() { a.bytes, shares[i] = 0, a.share("t000001") })
	}
	began := time.Now()
	kill(b, f.etcd.Client(b), f.prefix)
	moved, bytes := 0.0, 0
	for i, a := range f.agents {
		told := 0
		a.until(b, "has leases of the next leader", func() bool {
			told = a.bytes
			moved = max(moved, math.Abs(a.share("t000001")/shares[i]-1))
			return a.leases.GetEpoch() > before
		})
		bytes += told
	}
	b.ReportMetric(time.Since(began).Seconds(), "s/leases")
	b.ReportMetric(float64(bytes)/1e6, "MB")
	b.ReportMetric(100*moved, "%moved")
}
