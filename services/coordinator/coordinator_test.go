package coordinator_test

import (
	"context"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	clientv3 "go.etcd.io/etcd/client/v3"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator"
	"github.com/titrate/titrate/services/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// deadline bounds every wait of a test; it is reached only when something is wrong.
const deadline = 30 * time.Second

// running is a coordinator under test.
type running struct {
	t    testing.TB
	c    *coordinator.Coordinator
	stop context.CancelFunc
	done chan error
	conn *grpc.ClientConn
}

func start(t testing.TB, endpoint, prefix, name string) *running {
	t.Helper()
	return startWith(t, endpoint, prefix, name, insecure.NewCredentials(), func(*coordinator.Config) {})
}

// startWith starts a coordinator with other settings; caller is who asks it.
func startWith(t testing.TB, endpoint, prefix, name string, caller credentials.TransportCredentials,
	set func(*coordinator.Config)) *running {
	t.Helper()
	config := coordinator.Config{
		Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Name: name, EtcdEndpoints: []string{endpoint},
		StoreConfig: coordinator.StoreConfig{Prefix: prefix},
		SessionTTL:  2 * time.Second, Round: 50 * time.Millisecond, Settle: 300 * time.Millisecond,
		ShutdownTimeout: 2 * time.Second, Log: slog.New(slog.NewTextHandler(testLog{t}, nil)).With("coordinator", name),
	}
	set(&config)
	c, err := config.Complete(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{t: t, c: c, stop: stop, done: make(chan error, 1)}
	go func() { r.done <- c.Run(ctx) }()
	r.conn, err = grpc.NewClient(c.Address(), grpc.WithTransportCredentials(caller))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.conn.Close(); r.end() })
	return r
}

// end stops the coordinator and checks that it stopped in order.
func (r *running) end() {
	r.stop()
	select {
	case err := <-r.done:
		if err != nil {
			r.t.Errorf("run: %v", err)
		}
		r.done <- nil
	case <-time.After(deadline):
		r.t.Error("the coordinator does not stop")
	}
}

func (r *running) quota() quotav1.QuotaServiceClient { return quotav1.NewQuotaServiceClient(r.conn) }

func (r *running) get(path string) (int, string) {
	answer, err := http.Get("http://" + r.c.AdminAddress() + path)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body)
}

// testLog writes to a test's log while the test runs.
type testLog struct{ t testing.TB }

func (l testLog) Write(b []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Log(strings.TrimSpace(string(b)))
	}
	return len(b), nil
}

func (r *running) apply(resources ...*quotav1.Resource) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), deadline)
	defer cancel()
	if _, err := r.quota().Apply(ctx, &quotav1.ApplyRequest{Resources: resources},
		grpc.WaitForReady(true)); err != nil {
		r.t.Fatal(err)
	}
}

func pool(name string, capacity float64) *quotav1.Resource {
	return &quotav1.Resource{Kind: &quotav1.Resource_Pool{Pool: &quotav1.Pool{Name: "pools/" + name,
		Capacity: capacity}}}
}

func tenant(name string, weight float64) *quotav1.Resource {
	return &quotav1.Resource{Kind: &quotav1.Resource_Tenant{Tenant: &quotav1.Tenant{Name: "tenants/" + name,
		Weight: weight}}}
}

func quota(tenant, pool string, guaranteed float64) *quotav1.Resource {
	return &quotav1.Resource{Kind: &quotav1.Resource_Quota{Quota: &quotav1.Quota{
		Name: "tenants/" + tenant + "/quotas/" + pool, Guaranteed: guaranteed}}}
}

func near(x, want float64) bool { return math.Abs(x-want) <= .03*want }

func TestConfigurationToLeasesAndBack(t *testing.T) {
	etcd := storetest.Shared(t)
	r := start(t, etcd.Endpoint, storetest.Prefix(t), "one")
	r.apply(pool("api", 300), tenant("a", 1), tenant("b", 2), quota("a", "api", 0))
	a := join(t, "x", map[string]float64{"a": 600, "b": 600}, r.c.Address())
	a.until(t, "has its fair share", func() bool { return near(a.share("a"), 100) && near(a.share("b"), 200) })

	changed := time.Now()
	r.apply(quota("a", "api", 180))
	a.until(t, "has its new quota",
		func() bool { return a.config["tenants/a/quotas/api"].GetQuota().GetGuaranteed() == 180 })
	t.Logf("a change reached the agent %s after it was asked for", time.Since(changed).Round(time.Millisecond))
	a.until(t, "has its guarantee", func() bool { return near(a.share("a"), 180) && near(a.share("b"), 120) })

	ctx := t.Context()
	why, err := r.quota().Why(ctx, &quotav1.WhyRequest{Tenant: "tenants/a"})
	if err != nil || len(why.GetExplanations()) != 1 {
		t.Fatalf("why: %v %v", why, err)
	}
	e := why.GetExplanations()[0]
	if e.GetBoundBy() != quotav1.Bound_GUARANTEED || !near(e.GetShare(), 180) || len(e.GetGateways()) != 1 ||
		e.GetGateways()[0].GetGateway() != "gw-x" ||
		e.GetPool() != "pools/api" || e.GetTenant() != "tenants/a" || e.GetCapacity() != 300 ||
		!near(e.GetDemand(), 600) || !e.GetLimited() || e.GetEpoch() == 0 {
		t.Errorf("why: %v", e)
	}
	p, err := r.quota().GetPool(ctx, &quotav1.GetPoolRequest{Name: "pools/api"})
	if err != nil || !near(p.GetStatus().GetDemand(), 1200) || p.GetStatus().GetPrice() <= 0 {
		t.Errorf("pool: %v %v", p, err)
	}
	q, err := r.quota().GetQuota(ctx, &quotav1.GetQuotaRequest{Name: "tenants/a/quotas/api"})
	if err != nil || !near(q.GetStatus().GetShare(), 180) || q.GetStatus().GetStale() {
		t.Errorf("quota: %v %v", q, err)
	}
	if code, body := r.get("/readyz"); code != 200 {
		t.Errorf("readyz: %d %s", code, body)
	}
	_, metrics := r.get("/metrics")
	for _, want := range []string{`titrate_pool_capacity{pool="api"} 300`, `titrate_flow_share{pool="api",tenant="b"}`,
		"titrate_leading 1",
		"titrate_control_streams 1", "titrate_round_duration_seconds_count", "titrate_members 1"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

// kill ends the leader's session as an operator, or a partition, would.
func kill(t testing.TB, client *clientv3.Client, prefix string) {
	t.Helper()
	got, err := client.Get(t.Context(), prefix+"/election/", clientv3.WithFirstCreate()...)
	if err != nil || len(got.Kvs) == 0 {
		t.Fatalf("no leader: %v %v", got, err)
	}
	if _, err := client.Revoke(t.Context(), clientv3.LeaseID(got.Kvs[0].Lease)); err != nil {
		t.Fatal(err)
	}
}

func TestFailover(t *testing.T) {
	etcd, prefix := storetest.Shared(t), storetest.Prefix(t)
	prefix = strings.TrimSuffix(prefix, "/")
	client := etcd.Client(t)
	unhurried := func(c *coordinator.Config) { c.Settle = 2 * time.Second } // agents on a busy machine move within it
	one := startWith(t, etcd.Endpoint, prefix, "one", insecure.NewCredentials(), unhurried)
	one.apply(pool("api", 300), tenant("a", 1), tenant("b", 2))
	x := join(t, "x", map[string]float64{"a": 600}, one.c.Address())
	x.until(t, "is led", func() bool { return x.leases.GetEpoch() > 0 })
	two := startWith(t, etcd.Endpoint, prefix, "two", insecure.NewCredentials(), unhurried)
	y := join(t, "y", map[string]float64{"b": 600}, two.c.Address())
	y.until(t, "is sent to the leader", func() bool { return y.redirect == one.c.Address() && near(y.share("b"), 200) })
	x.until(t, "hears of both", func() bool { return near(x.share("a"), 100) && len(x.leases.GetMembers()) == 2 })
	if _, err := two.quota().Why(t.Context(), &quotav1.WhyRequest{Tenant: "tenants/a"}); err == nil ||
		!strings.Contains(err.Error(), one.c.Address()) {
		t.Errorf("why on a follower: %v", err)
	}
	two.apply(tenant("c", 1)) // a follower serves the admin API

	// New leaders must not judge demand before all agents have reported theirs.
	x.note(func() { x.floor = map[string]float64{"a": 90, "b": 180} })
	first := epoch(x)
	kill(t, client, prefix)
	x.until(t, "obeys the next epoch", func() bool { return x.leases.GetEpoch() > first })
	y.until(t, "obeys the next epoch", func() bool { return y.leases.GetEpoch() > first })
	x.until(t, "has its fair share again", func() bool { return near(x.share("a"), 100) && near(x.share("b"), 200) })
	if x.redirect != two.c.Address() {
		t.Errorf("x was sent to %q, two is at %s", x.redirect, two.c.Address())
	}

	x.note(func() { x.floor = map[string]float64{"a": 90} }) // y knows two only, which goes
	second := epoch(x)
	stopped := time.Now()
	two.end() // gives the lead back: nobody waits for the session to run out
	x.until(t, "obeys the third epoch", func() bool { return x.leases.GetEpoch() > second })
	t.Logf("after a stop in order agents had new leases in %s", time.Since(stopped).Round(time.Millisecond))
	x.until(t, "knows c", func() bool { return x.config["tenants/c"] != nil })
	for _, a := range []*agent{x, y} { // the next leaders knew what it held
		a.until(t, "was sent the configuration once", func() bool { return a.whole == 1 })
	}
}

func epoch(a *agent) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.leases.GetEpoch()
}

func TestEtcdStoppedAndBack(t *testing.T) {
	dir := t.TempDir()
	etcd, err := storetest.Start(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, etcd.Endpoint, "/t", "one")
	r.apply(pool("api", 300), tenant("a", 1), tenant("b", 2))
	a := join(t, "x", map[string]float64{"a": 600, "b": 600}, r.c.Address())
	a.until(t, "has its fair share", func() bool { return near(a.share("a"), 100) && near(a.share("b"), 200) })
	before := epoch(a)
	etcd.Kill()
	var frozen float64
	for limit := time.Now().Add(deadline); ; {
		if code, body := r.get("/readyz"); code == 503 {
			if !strings.Contains(body, "etcd:") {
				t.Errorf("readyz: %s", body)
			}
			break
		}
		if time.Now().After(limit) {
			t.Fatal("still ready without etcd")
		}
		time.Sleep(20 * time.Millisecond)
	}
	a.note(func() { a.demand = map[string]float64{"a": 600}; frozen = a.share("a") })
	from := seq(a)
	a.until(t, "is renewed", func() bool { return a.leases.GetSeq() > from+20 })
	if got := share(a, "a"); got != frozen || epoch(a) != before {
		t.Errorf("without etcd the share went from %v to %v, epoch %d to %d", frozen, got, before, epoch(a))
	}
	again, err := storetest.Start(dir, etcd.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Kill()
	a.until(t, "has what b left, under a new epoch",
		func() bool { return a.share("a") > 250 && a.leases.GetEpoch() > before })
	r.apply(tenant("c", 1))
	a.until(t, "knows c", func() bool { return a.config["tenants/c"] != nil })
}

func seq(a *agent) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.leases.GetSeq()
}

func share(a *agent, tenant string) float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.share(tenant)
}

func TestStartsWithoutEtcd(t *testing.T) {
	dir := t.TempDir()
	etcd, err := storetest.Start(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	endpoint := etcd.Endpoint
	etcd.Kill()
	r := start(t, endpoint, "/t", "one")
	if code, body := r.get("/readyz"); code != 503 || !strings.Contains(body, "configuration: not read") {
		t.Errorf("readyz: %d %s", code, body)
	}
	a := join(t, "x", map[string]float64{"a": 600}, r.c.Address())
	etcd, err = storetest.Start(dir, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Kill()
	r.apply(pool("api", 300), tenant("a", 1))
	a.until(t, "is led", func() bool { return a.share("a") > 250 })
}

func TestBadSettingsAreRefused(t *testing.T) {
	for want, c := range map[string]coordinator.Config{
		"--etcd-endpoints": {},
		"--name \"../x\"":  {EtcdEndpoints: []string{"127.0.0.1:1"}, Name: "../x"},
		"--round 1ms":      {EtcdEndpoints: []string{"127.0.0.1:1"}, Round: time.Millisecond},
		"--round 3s: want": {EtcdEndpoints: []string{"127.0.0.1:1"}, Round: 3 * time.Second},
		"--soft-expiry":    {EtcdEndpoints: []string{"127.0.0.1:1"}, SoftExpiry: 300 * time.Millisecond},
		"--session-ttl":    {EtcdEndpoints: []string{"127.0.0.1:1"}, SessionTTL: time.Millisecond},
		"--advertise":      {EtcdEndpoints: []string{"127.0.0.1:1"}, Advertise: "here"},
		"not a loopback":   {EtcdEndpoints: []string{"127.0.0.1:1"}, Listen: "0.0.0.0:0"},
	} {
		if _, err := c.Complete(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	open := coordinator.Config{EtcdEndpoints: []string{"127.0.0.1:1"}, Listen: "0.0.0.0:0", Admin: "127.0.0.1:0"}
	open.Security.Insecure = true
	if _, err := open.Complete(t.Context()); err == nil || !strings.Contains(err.Error(), "say with --advertise") {
		t.Errorf("%v", err)
	}
}

// A connection that says nothing does not hold a stop for long.
func TestStopBesideASilentConnection(t *testing.T) {
	r := start(t, storetest.Shared(t).Endpoint, storetest.Prefix(t), "one")
	silent, err := net.Dial("tcp", r.c.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if _, err := silent.Read(make([]byte, 1)); err != nil { // the server's first settings: it serves
		t.Fatal(err)
	}
	r.end()
}
