package coordinator_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/titrate/titrate/envoy-filter/certtest"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator"
	"github.com/titrate/titrate/services/store/storetest"
)

// sharedAgent is an agent of the tests with a stream to each coordinator, as an agent has it. It keeps leases pool by
// pool, and sends a coordinator that gains a pool its lease of the pool.
type sharedAgent struct {
	watched
	t      *testing.T
	name   string
	tenant string
	pools  []string
	demand float64 // of its tenant, in each pool
	site   string
	quiet  []string // pools in which it wants nothing

	epoch   int64
	held    map[string]heldPool
	streams map[string]*sharedStream // by address
	least   map[string]float64       // least and most share of the tenant in each pool since watch
	most    map[string]float64
}

// heldPool is an agent's state of one pool: the leases in force and their epoch.
type heldPool struct {
	epoch  int64
	from   string
	pool   *controlv1.PoolLease
	leases []*controlv1.Lease
}

type sharedStream struct {
	cancel context.CancelFunc
	pools  []string // that its coordinator leads
	gained []string
	told   bool
}

func joinShared(t *testing.T, name, tenant string, demand float64, pools []string, address string) *sharedAgent {
	a := &sharedAgent{t: t, name: name, tenant: tenant, demand: demand, pools: pools, held: map[string]heldPool{},
		streams: map[string]*sharedStream{}}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	a.note(func() { a.open(ctx, &all, address) })
	t.Cleanup(func() { cancel(); all.Wait() })
	return a
}

func (a *sharedAgent) until(what string, holds func() bool) {
	a.t.Helper()
	if !a.wait(holds) {
		a.t.Fatalf("%s: never %s; holds %v, streams %v", a.name, what, a.held, slices.Collect(maps.Keys(a.streams)))
	}
}

// open keeps a stream to an address until it is among the coordinators no more. The lock is held.
func (a *sharedAgent) open(ctx context.Context, all *sync.WaitGroup, address string) {
	ctx, cancel := context.WithCancel(ctx)
	a.streams[address] = &sharedStream{cancel: cancel}
	all.Go(func() {
		for ctx.Err() == nil {
			a.session(ctx, all, address)
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
}

func (a *sharedAgent) session(ctx context.Context, all *sync.WaitGroup, address string) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return
	}
	defer conn.Close()
	of, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := controlv1.NewControlServiceClient(conn).Connect(of)
	if err != nil {
		return
	}
	s := &sharedStream{cancel: func() {}}
	hello := &controlv1.Hello{Agent: a.name, Changes: false, Shares: true, Replicas: a.replicas()}
	a.mu.Lock()
	if old := a.streams[address]; old != nil {
		s.cancel = old.cancel
		a.streams[address] = s
	}
	hello.Epoch = a.epoch
	hello.Pools, hello.Leases = a.holds(nil)
	a.mu.Unlock()
	if w.Send(&controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Hello{Hello: hello}}) != nil {
		return
	}
	all.Go(func() { a.report(of, w, s) })
	for {
		m, err := w.Recv()
		if err != nil {
			return
		}
		a.note(func() { a.take(ctx, all, address, s, m) })
	}
}

func (a *sharedAgent) replicas() []*controlv1.Replica {
	return []*controlv1.Replica{{Name: "gw-" + a.name, Weight: 1}}
}

// holds returns the state and the leases that the agent has of some pools, nil for all.
func (a *sharedAgent) holds(pools []string) (held []*controlv1.PoolLease, leases []*controlv1.Lease) {
	for _, name := range slices.Sorted(maps.Keys(a.held)) {
		if h := a.held[name]; pools == nil || slices.Contains(pools, name) {
			h.pool.Epoch = h.epoch
			held, leases = append(held, h.pool), append(leases, h.leases...)
		}
	}
	return held, leases
}

func (a *sharedAgent) report(ctx context.Context,
	w grpc.BidiStreamingClient[controlv1.ConnectRequest, controlv1.ConnectResponse], s *sharedStream) {
	const every = 50 * time.Millisecond
	for seq := uint64(1); ctx.Err() == nil; seq++ {
		r := &controlv1.Report{Seq: seq, Interval: durationpb.New(every), Replicas: a.replicas()}
		a.mu.Lock()
		r.State = &controlv1.State{Site: a.site}
		for _, pool := range s.pools {
			if slices.Contains(a.quiet, pool) {
				continue
			}
			r.Flows = append(r.Flows, &controlv1.FlowReport{Tenant: a.tenant, Pool: pool, Gateway: "gw-" + a.name,
				Demand: a.demand, Served: a.demand / 2, Limited: true})
		}
		if len(s.gained) > 0 {
			r.Pools, r.Leases = a.holds(s.gained)
			s.gained = nil
		}
		a.mu.Unlock()
		if w.Send(&controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Report{Report: r}}) != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
}

func (a *sharedAgent) take(ctx context.Context, all *sync.WaitGroup, address string, s *sharedStream,
	m *controlv1.ConnectResponse) {
	if c := m.GetCoordinators(); c != nil {
		for _, name := range c.GetPools() {
			if s.told && !slices.Contains(s.pools, name) {
				s.gained = append(s.gained, name)
			}
		}
		s.told, s.pools = true, c.GetPools()
		if c.GetEpoch() < a.epoch {
			return
		}
		a.epoch = c.GetEpoch()
		for at, one := range a.streams {
			if !slices.Contains(c.GetAddresses(), at) {
				one.cancel()
				delete(a.streams, at)
			}
		}
		for _, at := range c.GetAddresses() {
			if a.streams[at] == nil {
				a.open(context.WithoutCancel(ctx), all, at)
				a.t.Cleanup(a.streams[at].cancel)
			}
		}
	}
	l := m.GetLeases()
	if l == nil {
		return
	}
	a.epoch = max(a.epoch, l.GetEpoch())
	for _, p := range l.GetPools() {
		if h := a.held[p.GetPool()]; l.GetEpoch() < h.epoch || l.GetEpoch() == h.epoch && h.from != address {
			if l.GetEpoch() == h.epoch {
				a.t.Errorf("%s and %s both lead %s in epoch %d", h.from, address, p.GetPool(), h.epoch)
			}
			continue
		}
		h := heldPool{epoch: l.GetEpoch(), from: address, pool: p}
		for _, one := range l.GetLeases() {
			if one.GetPool() == p.GetPool() {
				h.leases = append(h.leases, one)
			}
		}
		a.held[p.GetPool()] = h
		if a.least != nil {
			share := a.share(p.GetPool())
			a.least[p.GetPool()] = math.Min(a.least[p.GetPool()], share)
			a.most[p.GetPool()] = math.Max(a.most[p.GetPool()], share)
		}
	}
}

// share returns the share of the agent's tenant in a pool; the lock is held.
func (a *sharedAgent) share(pool string) float64 {
	for _, l := range a.held[pool].leases {
		if l.GetTenant() == a.tenant {
			return l.GetShare()
		}
	}
	return 0
}

func (a *sharedAgent) epochNow() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.epoch
}

// watch begins to note the least and the most of each share.
func (a *sharedAgent) watch() {
	a.note(func() {
		a.least, a.most = map[string]float64{}, map[string]float64{}
		for _, p := range a.pools {
			a.least[p], a.most[p] = a.share(p), a.share(p)
		}
	})
}

// moved returns the relative change of the share that moved the most since watch.
func (a *sharedAgent) moved() (most float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.pools {
		most = math.Max(most, a.most[p]/a.least[p]-1)
	}
	return most
}

// leaders are the addresses whose leases are in force, with the number of pools of each.
func (a *sharedAgent) leaders() map[string]int {
	out := map[string]int{}
	for _, h := range a.held {
		out[h.from]++
	}
	return out
}

// killSecond ends the session of the candidate that waits next.
func killSecond(t *testing.T, client *clientv3.Client, prefix string) {
	t.Helper()
	got, err := client.Get(t.Context(), prefix+"/election/", clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil || len(got.Kvs) < 2 {
		t.Fatalf("candidates: %v %v", got, err)
	}
	if _, err := client.Revoke(t.Context(), clientv3.LeaseID(got.Kvs[1].Lease)); err != nil {
		t.Fatal(err)
	}
}

func startShared(t *testing.T, endpoint, prefix, name string) *running {
	return startWith(t, endpoint, prefix, name, insecure.NewCredentials(), func(c *coordinator.Config) {
		c.SharePools, c.Settle, c.Round = true, time.Second, 100*time.Millisecond
	})
}

// sharedPools are eight pools of 300/s, and two tenants.
func sharedPools() (pools []string, resources []*quotav1.Resource) {
	resources = []*quotav1.Resource{tenant("a", 1), tenant("b", 2)}
	for i := range 8 {
		pools = append(pools, fmt.Sprintf("p%d", i))
		resources = append(resources, pool(pools[i], 300))
	}
	return pools, resources
}

// Two coordinators share the pools, one of them ends, and comes back: each pool has one leader, and no
// share moves by more than a few percent.
func TestCoordinatorsShareThePools(t *testing.T) {
	etcd, prefix := storetest.Shared(t), strings.TrimSuffix(storetest.Prefix(t), "/")
	one := startShared(t, etcd.Endpoint, prefix, "one")
	pools, resources := sharedPools()
	one.apply(resources...)
	x := joinShared(t, "x", "a", 600, pools, one.c.Address())
	y := joinShared(t, "y", "b", 600, pools, one.c.Address())
	fair := func(a *sharedAgent, want float64) func() bool {
		return func() bool {
			off := func(p string) bool { return !near(a.share(p), want) }
			return len(a.held) == len(pools) && !slices.ContainsFunc(pools, off)
		}
	}
	x.until("has its fair share", fair(x, 100))
	y.until("has its fair share", fair(y, 200))
	x.watch()
	y.watch()
	two := startShared(t, etcd.Endpoint, prefix, "two")
	for _, a := range []*sharedAgent{x, y} {
		a.until("is led by two", func() bool { return len(a.leaders()) == 2 && len(a.streams) == 2 })
	}
	t.Logf("pools led: %v", x.leaders())
	for _, r := range []*running{one, two} { // each may be asked
		checkShared(t, r, pools)
	}
	// A session ends though its coordinator lives: it begins again once it is back.
	away := x.epochNow()
	killSecond(t, etcd.Client(t), prefix)
	for _, a := range []*sharedAgent{x, y} {
		a.until("was led without two, and is led by it again", func() bool {
			return a.epoch > away && len(a.leaders()) == 2 && !slices.ContainsFunc(pools, func(p string) bool {
				return a.held[p].epoch <= away
			})
		})
	}
	before := x.epochNow()
	ended := time.Now()
	two.end()
	for _, a := range []*sharedAgent{x, y} {
		a.until("is led by one", func() bool {
			return len(a.leaders()) == 1 && len(a.streams) == 1 &&
				!slices.ContainsFunc(pools, func(p string) bool { return a.held[p].epoch <= before })
		})
	}
	t.Logf("all pools were led %s after one of two coordinators had ended", time.Since(ended).Round(time.Millisecond))
	three := startShared(t, etcd.Endpoint, prefix, "three")
	x.until("is led by two again", func() bool { return x.leaders()[three.c.Address()] > 0 })
	y.until("is led by two again", func() bool { return y.leaders()[three.c.Address()] > 0 })
	one.end() // the elected coordinator
	x.until("is led by the other", func() bool { return x.leaders()[three.c.Address()] == len(pools) })
	y.until("is led by the other", func() bool { return y.leaders()[three.c.Address()] == len(pools) })
	for _, a := range []*sharedAgent{x, y} {
		moved := a.moved()
		t.Logf("%s: no share moved by more than %.1f %%", a.name, 100*moved)
		if moved > .03 {
			t.Errorf("%s: a share moved by %.1f %%", a.name, 100*moved)
		}
	}
}

// checkShared asks a coordinator about all pools.
func checkShared(t *testing.T, r *running, pools []string) {
	t.Helper()
	ctx := t.Context()
	var list *quotav1.ListPoolsResponse
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		var err error
		list, err = r.quota().ListPools(ctx, &quotav1.ListPoolsRequest{})
		if err != nil || len(list.GetPools()) != len(pools) {
			t.Fatalf("pools: %v %v", list, err)
		}
		off := func(p *quotav1.Pool) bool { return !near(p.GetStatus().GetDemand(), 1200) }
		if i := slices.IndexFunc(list.GetPools(), off); i < 0 { // a new leader has not all reports yet
			break
		} else if time.Now().After(end) {
			t.Fatalf("%s: %v", list.GetPools()[i].GetName(), list.GetPools()[i].GetStatus())
		}
	}
	leaders := map[string]int{}
	for _, p := range list.GetPools() {
		leaders[p.GetStatus().GetLeader()]++
	}
	if len(leaders) != 2 || leaders["one"]+leaders["two"] != len(pools) {
		t.Errorf("pools are led by %v", leaders)
	}
	why, err := r.quota().Why(ctx, &quotav1.WhyRequest{Tenant: "tenants/a"})
	if err != nil || len(why.GetExplanations()) != len(pools) {
		t.Errorf("why: %v %v", why, err)
	}
	for i, name := range pools {
		e := why.GetExplanations()[i]
		if e.GetPool() != "pools/"+name || !near(e.GetShare(), 100) || len(e.GetGateways()) != 1 {
			t.Errorf("why of all: %v", e)
		}
		one, err := r.quota().Why(ctx, &quotav1.WhyRequest{Tenant: "tenants/b", Pool: "pools/" + name})
		if err != nil || len(one.GetExplanations()) != 1 || !near(one.GetExplanations()[0].GetShare(), 200) {
			t.Errorf("why %s: %v %v", name, one, err)
		}
	}
	plan, err := r.quota().Plan(ctx, &quotav1.PlanRequest{Apply: &quotav1.ApplyRequest{
		Resources: []*quotav1.Resource{tenant("a", 2)}}})
	if err != nil || plan.GetEffectsUnknown() != "" || len(plan.GetFlows()) != 2*len(pools) {
		t.Errorf("plan: %v %v", plan, err)
	}
	check, err := r.quota().Check(ctx, &quotav1.CheckRequest{})
	said := ""
	for _, f := range check.GetFindings() {
		said += f.GetState().String() + " " + f.GetMessage() + "\n"
	}
	if err != nil || !strings.Contains(said, "2 coordinators share the pools") || !strings.Contains(said, "one leads") ||
		!strings.Contains(said, "8 pools, 8 of them full") {
		t.Errorf("check: %v\n%s", err, said)
	}
	_, metrics := r.get("/metrics")
	if !strings.Contains(metrics, "\ntitrate_sharers 2\n") || !strings.Contains(metrics, "\ntitrate_leading 1\n") {
		t.Error("metrics lack titrate_sharers 2 or titrate_leading 1")
	}
}

// While an agent of a release that knows one leader only is there, one coordinator leads all; so does an elected
// coordinator that does not share.
func TestOneLeadsAllForOlderReleases(t *testing.T) {
	etcd, prefix := storetest.Shared(t), strings.TrimSuffix(storetest.Prefix(t), "/")
	client := etcd.Client(t)
	one := startShared(t, etcd.Endpoint, prefix, "one")
	pools, resources := sharedPools()
	one.apply(append(resources, pool("api", 300))...)
	two := startShared(t, etcd.Endpoint, prefix, "two")
	plain := start(t, etcd.Endpoint, prefix, "plain")
	x := joinShared(t, "x", "a", 600, pools, one.c.Address())
	x.until("is led by two", func() bool { return len(x.held) == len(pools)+1 && len(x.leaders()) == 2 })
	for _, r := range []*running{one, two} {
		if _, metrics := r.get("/metrics"); !strings.Contains(metrics, "\ntitrate_pools_not_shared 0\n") {
			t.Error("the pools are shared, and a metric says that they are not")
		}
	}
	old := join(t, "old", map[string]float64{"b": 600}, two.c.Address(), one.c.Address(), plain.c.Address())
	old.until(t, "has its share", func() bool { return near(old.share("b"), 300) || near(old.share("b"), 200) })
	x.until("is led by one", func() bool { return len(x.leaders()) == 1 && len(x.streams) == 1 })
	if _, said := one.get("/readyz"); !strings.Contains(said, "alarm: sharing: agent old is of a release") {
		t.Errorf("readyz of one: %s", said)
	}
	until := func(r *running, want string) {
		t.Helper()
		for said, limit := "", time.Now().Add(deadline); !strings.Contains(said, want); {
			if _, said = r.get("/readyz"); time.Now().After(limit) {
				t.Fatalf("readyz: %s, want %s", said, want)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	until(two, "alarm: sharing: "+one.c.Address()+" leads all pools: it has, or had within a minute, an agent")
	if _, metrics := one.get("/metrics"); !strings.Contains(metrics, "\ntitrate_pools_not_shared 1\n") {
		t.Error("the metric of one does not say that the pools are not shared")
	}
	leading := func(r *running) bool {
		_, metrics := r.get("/metrics")
		return strings.Contains(metrics, "\ntitrate_leading 1\n")
	}
	for limit := time.Now().Add(deadline); !leading(plain); { // whose session is ended waits for its turn again
		if time.Now().After(limit) {
			t.Fatal("the one that does not share is never elected")
		}
		kill(t, client, prefix)
		for end := time.Now().Add(time.Second); !leading(plain) && time.Now().Before(end); {
			time.Sleep(20 * time.Millisecond)
		}
	}
	old.until(t, "is led by it", func() bool {
		_, metrics := plain.get("/metrics")
		return strings.Contains(metrics, "\ntitrate_control_streams 1\n") && old.share("b") > 0
	})
	if !leading(plain) || leading(one) || leading(two) {
		t.Errorf("leading: plain %v, one %v, two %v; want the first alone", leading(plain), leading(one), leading(two))
	}
	until(two, "leads all pools: it runs without")
}

// Only who has read a coordinator's secret in etcd is answered.
func TestPeersKnowTheSecret(t *testing.T) {
	etcd, prefix := storetest.Shared(t), strings.TrimSuffix(storetest.Prefix(t), "/")
	r := startShared(t, etcd.Endpoint, prefix, "one")
	peer := controlv1.NewPeerServiceClient(r.conn)
	question := &controlv1.AskRequest{Question: &controlv1.AskRequest_Findings{Findings: &controlv1.FindingsQuestion{}}}
	for _, ctx := range []context.Context{t.Context(), metadata.AppendToOutgoingContext(t.Context(),
		"titrate-coordinator-key-bin", strings.Repeat("x", 32))} {
		if _, err := peer.Ask(ctx, question, grpc.WaitForReady(true)); status.Code(err) != codes.Unauthenticated {
			t.Errorf("without the secret: %v", err)
		}
	}
}

// With certificates coordinators ask each other under their own, and know each other by the secret
// alone: an agent's certificate does not open what they ask. A caller needs its role where it asks.
func TestPeersWithCertificates(t *testing.T) {
	etcd, prefix := storetest.Shared(t), strings.TrimSuffix(storetest.Prefix(t), "/")
	g := &guarded{t: t, ca: certtest.New(t), policy: filepath.Join(t.TempDir(), "policy.yaml")}
	g.trust = certtest.Bundle(t, g.ca)
	g.grant(grants)
	startOne := func(name, caller string) *running {
		return startWith(t, etcd.Endpoint, prefix, name, g.credentials(g.ca, caller), func(c *coordinator.Config) {
			c.SharePools, c.AccessPolicy, c.ListenAgents = true, g.policy, "127.0.0.1:0"
			c.Security.Cert, c.Security.Key = g.ca.Issue(t, "coordinator")
			c.Security.CA = g.trust
		})
	}
	one, two := startOne("one", "spiffe://x/viewer"), startOne("two", "spiffe://x/agent/x")
	said := ""
	for limit := time.Now().Add(deadline); !strings.Contains(said, "2 coordinators share the pools"); {
		check, err := one.quota().Check(t.Context(), &quotav1.CheckRequest{}, grpc.WaitForReady(true))
		if said = fmt.Sprint(check, err); time.Now().After(limit) {
			t.Fatal(said)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if _, err := two.quota().Check(t.Context(), &quotav1.CheckRequest{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("an agent asks: %v", err)
	}
	conn, err := grpc.NewClient(two.c.AgentAddress(),
		grpc.WithTransportCredentials(g.credentials(g.ca, "spiffe://x/agent/x")))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := controlv1.NewPeerServiceClient(conn).Ask(t.Context(), &controlv1.AskRequest{
		Question: &controlv1.AskRequest_Findings{Findings: &controlv1.FindingsQuestion{}},
	}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("an agent asks as a coordinator does: %v", err)
	}
}
