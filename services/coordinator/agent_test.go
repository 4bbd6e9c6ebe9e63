package coordinator_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	agentstream "github.com/titrate/titrate/services/agent/stream"
	"github.com/titrate/titrate/services/store/resource"
)

// agent is an agent of the tests: it looks for the leader among the coordinators, reports demands, and remembers the
// latest leases.
type agent struct {
	watched
	name string

	demand   map[string]float64 // of each tenant of pool api
	config   map[string]*quotav1.Resource
	revision int64
	seed     uint64
	leases   *controlv1.Leases
	wrong    []string           // broken promises of the coordinators
	redirect string             // the last leader it was sent to
	obeyed   int64              // an epoch from before this test, 0 = none
	also     string             // a coordinator that it learnt of later
	floor    map[string]float64 // least shares that it may see from now on

	digest resource.Digest // of the resources that it holds
	part   bool            // the rest of a configuration is to come
	whole  int             // configurations that it was sent as a whole
	bytes  int             // of all configurations that it was sent
	lean   bool            // it keeps no resources; its digest was given to it
}

func join(t testing.TB, name string, demand map[string]float64, addresses ...string) *agent {
	a := &agent{name: name, demand: demand}
	a.run(t, addresses)
	return a
}

// run connects the agent until the end of the test.
func (a *agent) run(t testing.TB, addresses []string) {
	a.config = map[string]*quotav1.Resource{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			leader := agentstream.LeaderOf(a.session(ctx, a.address(i, addresses)))
			if leader != "" {
				a.note(func() { a.redirect = leader })
				a.session(ctx, leader)
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, w := range a.wrong {
			t.Errorf("%s: %s", a.name, w)
		}
	})
}

// address is the one to try next.
func (a *agent) address(i int, addresses []string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.also != "" {
		addresses = append([]string{a.also}, addresses...)
	}
	if len(addresses) == 0 {
		return "127.0.0.1:1"
	}
	return addresses[i%len(addresses)]
}

// visit gives the agent the address of another coordinator.
func (a *agent) visit(t testing.TB, address string) {
	t.Helper()
	a.note(func() { a.also = address })
}

// until waits until a condition of the agent holds.
func (a *agent) until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !a.wait(holds) {
		t.Fatalf("%s: never %s; leases %v", a.name, what, a.leases)
	}
}

// watched guards state with a mutex and lets goroutines wait for its change.
type watched struct {
	mu      sync.Mutex
	changed chan struct{} // closed at the next change; nil: nobody waits
}

// note changes the state and wakes the goroutines that wait for a change.
func (w *watched) note(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// wait waits until a condition holds. It is false if that never was.
func (w *watched) wait(holds func() bool) bool {
	limit := time.After(deadline)
	for {
		w.mu.Lock()
		ok := holds()
		if w.changed == nil {
			w.changed = make(chan struct{})
		}
		changed := w.changed
		w.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-limit:
			return false
		}
	}
}

// session is one stream; it returns why it ended.
func (a *agent) session(ctx context.Context, address string) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := controlv1.NewControlServiceClient(conn).Connect(ctx)
	if err != nil {
		return err
	}
	a.mu.Lock()
	hello := &controlv1.Hello{Agent: a.name, Epoch: max(a.leases.GetEpoch(), a.obeyed), Revision: a.revision,
		Replicas: []*controlv1.Replica{{Name: "gw-" + a.name, Weight: 1}},
		Pools:    a.leases.GetPools(), Leases: a.leases.GetLeases(), Digest: uint64(a.digest)}
	a.part = false
	a.mu.Unlock()
	if err := s.Send(&controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Hello{Hello: hello}}); err != nil {
		return err
	}
	go a.report(ctx, s)
	for {
		m, err := s.Recv()
		if err != nil {
			return err
		}
		a.note(func() { a.take(m) })
	}
}

func (a *agent) report(ctx context.Context,
	s grpc.BidiStreamingClient[controlv1.ConnectRequest, controlv1.ConnectResponse]) {
	const every = 50 * time.Millisecond
	for seq := uint64(1); ; seq++ {
		r := &controlv1.Report{Seq: seq, Interval: durationpb.New(every),
			Replicas: []*controlv1.Replica{{Name: "gw-" + a.name, Weight: 1}}}
		a.mu.Lock()
		for tenant, demand := range a.demand {
			r.Flows = append(r.Flows, &controlv1.FlowReport{Tenant: tenant, Pool: "api", Gateway: "gw-" + a.name,
				Demand: demand, Served: demand / 2, Limited: true})
		}
		a.mu.Unlock()
		if s.Send(&controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Report{Report: r}}) != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
	}
}

func (a *agent) take(m *controlv1.ConnectResponse) {
	if c := m.GetConfiguration(); c != nil {
		a.configure(c)
	}
	if l := m.GetLeases(); l != nil {
		before := a.leases
		if l.GetEpoch() < before.GetEpoch() || l.GetEpoch() == before.GetEpoch() && l.GetSeq() <= before.GetSeq() {
			a.wrong = append(a.wrong, fmt.Sprintf("leases %d/%d after %d/%d", l.GetEpoch(), l.GetSeq(),
				before.GetEpoch(), before.GetSeq()))
		}
		if l.GetRevision() > a.revision {
			a.wrong = append(a.wrong, fmt.Sprintf("leases of revision %d, configuration %d", l.GetRevision(),
				a.revision))
		}
		a.leases = l
		for tenant, floor := range a.floor {
			if got := a.share(tenant); got < floor {
				a.wrong = append(a.wrong, fmt.Sprintf("the share of %s fell to %v at %d/%d", tenant, got, l.GetEpoch(),
					l.GetSeq()))
			}
		}
	}
}

// configure takes a part of a configuration.
func (a *agent) configure(c *controlv1.Configuration) {
	a.bytes += proto.Size(c)
	if !a.lean {
		a.keep(c)
	}
	if a.seed != 0 && a.seed != c.GetSeed() {
		a.wrong = append(a.wrong, "the seed changed")
	}
	a.revision, a.seed = c.GetRevision(), c.GetSeed()
}

// keep keeps the resources of a part of a configuration.
func (a *agent) keep(c *controlv1.Configuration) {
	if c.GetFull() && !a.part {
		a.whole++
		a.digest = 0
		clear(a.config)
	}
	a.part = !c.GetLast()
	for _, r := range c.GetResources() {
		name := resource.Name(r)
		a.digest = a.digest.Replace(a.config[name], r)
		a.config[name] = r
	}
	for _, name := range c.GetDeleted() {
		a.digest = a.digest.Replace(a.config[name], nil)
		delete(a.config, name)
	}
}

// share is the lease of a tenant, 0 if it has none; the lock is held.
func (a *agent) share(tenant string) float64 {
	for _, l := range a.leases.GetLeases() {
		if l.GetTenant() == tenant && l.GetPool() == "api" {
			return l.GetShare()
		}
	}
	return 0
}
