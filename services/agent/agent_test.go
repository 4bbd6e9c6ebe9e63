package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

func TestMain(m *testing.M) {
	// A probe that is under way when memberlist stops ends by its own timeout.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}

// instance is a running agent.
type instance struct {
	*Agent
	t    *testing.T
	stop func()
}

func run(t *testing.T, c Config) *instance {
	t.Helper()
	if c.Socket == "" {
		c.Socket = filepath.Join(t.TempDir(), "a.sock")
	}
	c.Gossip, c.Admin, c.Log, c.FaultInjection = "127.0.0.1:0", "127.0.0.1:0", slog.New(slog.DiscardHandler), true
	c.T1, c.T2 = time.Second, 2*time.Second
	ctx, cancel := context.WithCancel(context.Background())
	a, err := c.Complete(ctx)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	i := &instance{Agent: a, t: t, stop: func() { cancel(); <-done }}
	t.Cleanup(i.stop)
	return i
}

func (i *instance) eventually(what string, f func(Status) bool) {
	i.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		s := i.Status()
		if f(s) {
			return
		}
		if time.Now().After(end) {
			text, err := json.MarshalIndent(s, "", " ")
			i.t.Fatalf("%s never %s: %s %v", s.Name, what, text, err)
		}
	}
}

func (i *instance) http(method, path string) (int, string) {
	i.t.Helper()
	r, err := http.NewRequest(method, "http://"+i.AdminAddress()+path, nil)
	if err != nil {
		i.t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	answer, err := client.Do(r)
	if err != nil {
		i.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		i.t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// filter is a model of an Envoy's filter: it claims each period, and keeps the latest of what it receives.
type filter struct {
	t    *testing.T
	conn net.Conn

	writing sync.Mutex
	w       *link.Writer

	mu     sync.Mutex
	config *config.Config
	shares *exchange.Shares
	sums   *exchange.Sums
	beat   *link.Heartbeat
}

func connect(i *instance, replica string, generation uint64) *filter {
	i.t.Helper()
	conn, err := net.Dial("unix", i.c.Socket)
	if err != nil {
		i.t.Fatal(err)
	}
	f := &filter{t: i.t, conn: conn, w: link.NewWriter(conn)}
	f.say(&link.Hello{Version: link.Version, Replica: replica, Generation: generation, Weight: 1})
	ended := make(chan struct{})
	var life sync.WaitGroup
	life.Go(func() { f.listen(link.NewReader(conn)) })
	life.Go(func() { f.live(ended) })
	i.t.Cleanup(func() { close(ended); conn.Close(); life.Wait() })
	return f
}

func (f *filter) listen(r *link.Reader) {
	for {
		m, err := r.Next()
		if err != nil {
			return
		}
		f.mu.Lock()
		switch m := m.(type) {
		case *config.Config:
			f.config = m
		case *config.Delta:
			if f.config, err = f.config.With(m); err != nil {
				f.t.Error(err)
			}
		case *exchange.Shares:
			f.shares = m
		case *exchange.Sums:
			f.sums = m
		case *link.Heartbeat:
			f.beat = m
		}
		f.mu.Unlock()
	}
}

// live sends heartbeats until the test or the connection ends.
func (f *filter) live(ended <-chan struct{}) {
	tick := time.NewTicker(link.HeartbeatEvery)
	defer tick.Stop()
	for sequence := uint64(1); f.write(&link.Heartbeat{Sequence: sequence}) == nil; sequence++ {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
	}
}

func (f *filter) write(m link.Message) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	return f.w.Write(m)
}

func (f *filter) say(m link.Message) {
	f.t.Helper()
	if err := f.write(m); err != nil {
		f.t.Fatal(err)
	}
}

func (f *filter) claim(claim, admitted float64) {
	f.say(&exchange.Claims{Keys: []exchange.KeyClaim{{Key: 7, Claim: claim, Active: 1, Admitted: admitted,
		Spent: admitted}},
		Flows: []exchange.FlowClaim{{Key: 9, Claim: claim, Unsaturated: claim}}})
}

func (f *filter) eventually(what string, ok func() bool) {
	f.t.Helper()
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		f.mu.Lock()
		good := ok()
		f.mu.Unlock()
		if good {
			return
		}
		if time.Now().After(end) {
			f.t.Fatalf("never %s: config %+v shares %+v sums %+v", what, f.config, f.shares, f.sums)
		}
	}
}

func (f *filter) others() (claims float64) {
	for _, k := range f.sums.Keys {
		if k.Key == 7 {
			claims = k.Claims
		}
	}
	return claims
}

// coordinator is scripted: it gives what it has, and records.
type coordinator struct {
	controlv1.UnimplementedControlServiceServer
	address string
	stop    func()

	mu      sync.Mutex
	config  *controlv1.Configuration
	epoch   int64
	share   float64
	members []string
	hellos  []*controlv1.Hello
	acks    []*controlv1.Ack
	reports []*controlv1.Report
	ahead   time.Duration // of its clock to the agents'; 0: it does not say the time
}

func lead(t *testing.T, config *controlv1.Configuration, epoch int64, share float64) *coordinator {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &coordinator{address: l.Addr().String(), config: config, epoch: epoch, share: share}
	server := grpc.NewServer()
	controlv1.RegisterControlServiceServer(server, c)
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(l) }()
	c.stop = func() { server.Stop(); <-done }
	t.Cleanup(c.stop)
	return c
}

func (c *coordinator) Connect(s controlv1.ControlService_ConnectServer) error {
	var reader sync.WaitGroup
	defer reader.Wait()
	reader.Go(func() { c.read(s) })
	var sent *controlv1.Configuration
	for seq := uint64(1); ; seq++ {
		c.mu.Lock()
		config := c.config
		leases := &controlv1.Leases{Epoch: c.epoch, Seq: seq, Revision: config.GetRevision(),
			SoftExpiry: durationpb.New(400 * time.Millisecond),
			Leases:     []*controlv1.Lease{{Tenant: "acme", Pool: "api", Share: c.share}}}
		for _, name := range c.members {
			leases.Members = append(leases.Members, &controlv1.Replica{Name: name, Weight: 1})
		}
		c.mu.Unlock()
		if config != sent {
			if err := s.Send(&controlv1.ConnectResponse{Message: &controlv1.ConnectResponse_Configuration{Configuration: config}}); err != nil {
				return err
			}
			sent = config
		}
		if err := s.Send(&controlv1.ConnectResponse{Sent: c.clock(),
			Message: &controlv1.ConnectResponse_Leases{Leases: leases}}); err != nil {
			return err
		}
		select {
		case <-s.Context().Done():
			return s.Context().Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (c *coordinator) read(s controlv1.ControlService_ConnectServer) {
	for {
		m, err := s.Recv()
		if err != nil {
			return
		}
		c.mu.Lock()
		switch {
		case m.GetHello() != nil:
			c.hellos = append(c.hellos, m.GetHello())
		case m.GetAck() != nil:
			c.acks = append(c.acks, m.GetAck())
		case m.GetReport() != nil:
			c.reports = append(c.reports, m.GetReport())
		}
		c.mu.Unlock()
	}
}

func (c *coordinator) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *coordinator) eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		c.mu.Lock()
		good := ok()
		c.mu.Unlock()
		if good {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the coordinator never %s: acks %v, reports %v", what, c.acks, c.reports)
		}
	}
}

func pools(revision int64, full bool, capacity float64) *controlv1.Configuration {
	return &controlv1.Configuration{Nonce: uint64(revision), Revision: revision, Full: full, Last: true, Seed: 11,
		Resources: []*quotav1.Resource{
			{Kind: &quotav1.Resource_Pool{Pool: &quotav1.Pool{Name: "pools/api", Capacity: capacity}}},
			{Kind: &quotav1.Resource_Limit{Limit: &quotav1.Limit{Name: "tenants/-/limits/l", Rate: "600/min"}}},
		}}
}

// The whole way: configuration and shares down, reports up, a bad change
// refused, the coordinator lost and a stale one refused.
func TestUnderACoordinator(t *testing.T) {
	t.Parallel()
	c := lead(t, pools(3, true, 100), 5, 40)
	a := run(t, Config{Name: "agent-1", Coordinators: []string{c.address}})
	f := connect(a, "gw-1", 1)
	f.eventually("has its orders", func() bool {
		return f.config != nil && f.config.Revision == 3 &&
			f.config.Inherited().Tenants[0].Limits[0].Rate == 10 && f.shares != nil && !f.shares.Stale && f.shares.Flows[0].Share == 40 && f.sums != nil
	})
	f.say(&exchange.Report{Interval: 500 * time.Millisecond, Flows: []exchange.FlowReport{{Tenant: "acme", Pool: "api",
		Demand: 10, Served: 5, Waiting: 2, Limited: true}}})
	c.eventually(t, "got the report", func() bool {
		for _, r := range c.reports {
			if len(r.Flows) == 1 && r.Flows[0].Demand == 20 && r.Flows[0].Served == 10 && r.Flows[0].Waiting == 2 &&
				r.Flows[0].Limited && r.Flows[0].Gateway == "gw-1" && r.Replicas[0].Name == "gw-1" {
				return true
			}
		}
		return false
	})
	c.set(func() { c.config = pools(4, false, -1) })
	c.eventually(t, "saw the refusal", func() bool {
		last := c.acks[len(c.acks)-1]
		return last.Nonce == 4 && strings.Contains(last.Error, "pools/api: capacity")
	})
	a.eventually("keeps the old", func(s Status) bool { return s.ConfigRevision == 3 })
	c.set(func() { c.config, c.share = pools(5, false, 200), 50 })
	f.eventually("has the repair", func() bool {
		return f.config.Revision == 5 && f.config.Pools[0].Capacity == 200 && f.shares.Flows[0].Share == 50
	})
	c.stop()
	f.eventually("freezes", func() bool { return f.shares.Stale && f.shares.Flows[0].Share == 50 })
	a.eventually("says so", func(s Status) bool { return s.SharesStale && !s.Stream.Connected && s.Stream.Error != "" })
	if code, body := a.http("GET", "/readyz"); code != http.StatusOK {
		t.Errorf("without its coordinator the agent is as ready as before: %d %s", code, body)
	}
}

// Keys beyond a gateway's budget are an alarm of the agent, which stays ready.
func TestKeysBeyondTheBudgetAreAnAlarm(t *testing.T) {
	t.Parallel()
	c := lead(t, pools(3, true, 100), 5, 40)
	a := run(t, Config{Name: "agent-1", Coordinators: []string{c.address}})
	f := connect(a, "gw-1", 1)
	f.eventually("has its configuration", func() bool { return f.config != nil })
	if _, body := a.http("GET", "/readyz"); strings.Contains(body, "keys") {
		t.Errorf("before: %s", body)
	}
	f.say(&link.Heartbeat{Sequence: 9, Revision: 3, Parted: 7})
	a.eventually("tells", func(Status) bool {
		code, body := a.http("GET", "/readyz")
		return code == http.StatusOK && strings.Contains(body, "alarm: keys: gateway gw-1") &&
			strings.Contains(body, "(7 ")
	})
}

// A snapshot that cannot be written is an alarm of the agent, which stays ready, until it
// was written.
func TestAnUnwrittenSnapshotIsAnAlarm(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	c := lead(t, pools(3, true, 100), 5, 40)
	a := run(t, Config{Name: "agent-1", Coordinators: []string{c.address}, SnapshotDir: dir})
	a.eventually("saves", func(s Status) bool { return s.SnapshotsSaved > 0 })
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	a.offering.Lock()
	a.unsaved.whole = true
	a.offering.Unlock()
	a.unsaved.any.Store(true)
	a.eventually("tells", func(s Status) bool {
		code, body := a.http("GET", "/readyz")
		_, metrics := a.http("GET", "/metrics")
		return s.SnapshotFailures > 0 && code == http.StatusOK && strings.Contains(body, "alarm: snapshot: ") &&
			!strings.Contains(metrics, "titrate_agent_snapshot_unwritten 0")
	})
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	a.eventually("saves again", func(s Status) bool { return s.SnapshotFailures == 0 })
}

// What the agent and its gateways leave out of a configuration, and the names that
// gateways know, go up with a report, again on each stream. The rest is in force.
func TestStateGoesUp(t *testing.T) {
	t.Parallel()
	pushed := pools(3, true, 100)
	pushed.Resources = append(pushed.Resources, &quotav1.Resource{Kind: &quotav1.Resource_Limit{Limit: &quotav1.Limit{
		Name: "tenants/acme/limits/huge", Rate: "1/s", Burst: 1e300}}})
	c := lead(t, pushed, 5, 40)
	a := run(t, Config{Name: "agent-1", Coordinators: []string{c.address}})
	f := connect(a, "gw-1", 1)
	f.eventually("has the rest", func() bool {
		return f.config != nil && f.config.Revision == 3 &&
			len(f.config.Defaults) == 1
	})
	f.say(&exchange.Names{Identities: []string{"ip"}})
	f.say(&link.Refused{Revision: 3, Total: 1, Limits: []config.LeftOut{{Tenant: "bolt", Limit: "new",
		Reason: "is new"}}})
	c.eventually(t, "got the state", func() bool {
		for _, r := range c.reports {
			s := r.GetState()
			if left := s.GetLeftOut(); len(left) != 1 || left[0].Tenant != "acme" || left[0].Limit != "huge" ||
				left[0].Reason == "" {
				continue
			}
			if g := s.GetGateways(); len(g) == 1 && g[0].Name == "gw-1" && g[0].NamesKnown &&
				len(g[0].Identities) == 1 &&
				g[0].LeftOutTotal == 1 && g[0].LeftOut[0].Tenant == "bolt" {
				return true
			}
		}
		return false
	})
	if code, body := a.http("GET", "/readyz"); code != http.StatusOK ||
		!strings.Contains(body, `the first is "huge" of tenant "acme"`) {
		t.Errorf("readyz: %d %s", code, body)
	}
}

func TestStaleLeaderIsRefused(t *testing.T) {
	t.Parallel()
	now, old := lead(t, pools(3, true, 100), 5, 40), lead(t, pools(2, true, 1), 4, 1)
	a := run(t, Config{Name: "agent-1", Coordinators: []string{now.address, old.address}})
	f := connect(a, "gw-1", 1)
	f.eventually("has its orders", func() bool { return f.shares != nil && f.shares.Epoch == 5 })
	now.stop()
	a.eventually("meets the old leader", func(s Status) bool {
		return strings.Contains(s.Stream.Error,
			"epoch 4 refused")
	})
	old.eventually(t, "was told the epoch", func() bool { return old.hellos[0].Epoch == 5 })
	f.eventually("keeps its share", func() bool { return f.shares.Epoch == 5 && f.shares.Flows[0].Share == 40 })
}

func TestSnapshotServesWithoutCoordinator(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	c := lead(t, pools(3, true, 100), 5, 40)
	c.set(func() { c.members = []string{"gw-1", "gw-2"} })
	a := run(t, Config{Name: "agent-1", Coordinators: []string{c.address}, SnapshotDir: dir})
	a.eventually("has its orders", func(s Status) bool {
		return s.ConfigRevision == 3 && s.Leases == 1 &&
			len(s.UnheardMembers) == 2
	})
	a.stop()
	c.stop()

	again := run(t, Config{Name: "agent-1", Coordinators: []string{c.address}, SnapshotDir: dir})
	f := connect(again, "gw-1", 1)
	f.eventually("has the old orders", func() bool {
		return f.config != nil && f.config.Revision == 3 && f.shares != nil && f.shares.Stale &&
			f.shares.Flows[0].Share == 40
	})
	f.eventually("is cut off from the other", func() bool {
		return f.sums.Replicas == 2 &&
			f.sums.Isolation == exchange.Split
	})
	if s := again.Status(); s.Epoch != 5 {
		t.Errorf("epoch %d, want 5", s.Epoch)
	}
	again.stop()

	if err := os.WriteFile(filepath.Join(dir, "last-good.bin"), []byte("TITRATE1 but no more"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := run(t, Config{Name: "agent-1", SnapshotDir: dir})
	if code, body := empty.http("GET", "/readyz"); code != http.StatusServiceUnavailable ||
		!strings.Contains(body, "configuration") {
		t.Errorf("ready without a configuration: %d %s", code, body)
	}
	if _, err := os.Stat(filepath.Join(dir, "last-good.damaged")); err != nil {
		t.Errorf("the damaged file is not kept: %v", err)
	}
}

// Three agents with two gateways at one of them: sums, cut off and healed, a crash of the process distinguished from a
// lost link.
func TestMesh(t *testing.T) {
	t.Parallel()
	a := run(t, Config{Name: "agent-a"})
	b := run(t, Config{Name: "agent-b", Join: []string{a.GossipAddress()}})
	c := run(t, Config{Name: "agent-c", Join: []string{a.GossipAddress()}})
	fa, fa2, fb, fc := connect(a, "a", 1), connect(a, "a2", 1), connect(b, "b", 1), connect(c, "c", 1)
	all := []*filter{fa, fa2, fb, fc}
	for _, f := range all {
		f.eventually("knows all four", func() bool {
			return f.sums != nil && f.sums.Replicas == 4 &&
				f.sums.TotalWeight == 4
		})
	}
	for i, f := range all {
		f.claim(float64(int(1)<<i), 1)
	}
	for i, f := range all {
		f.eventually("hears the others", func() bool {
			return f.others() == float64(15-int(1)<<i) &&
				len(f.sums.Flows) == 1
		})
	}
	if code, body := a.http("POST", "/fault/partition?on=maybe"); code != http.StatusBadRequest {
		t.Errorf("%d %s", code, body)
	}
	if code, body := c.http("POST", "/fault/partition?on=true"); code != http.StatusNoContent {
		t.Fatalf("%d %s", code, body)
	}
	fc.eventually("freezes", func() bool { return fc.sums.Isolation == exchange.Frozen && fc.sums.Replicas == 4 })
	fc.eventually("splits", func() bool { return fc.sums.Isolation == exchange.Split && fc.sums.Replicas == 4 })
	fa.eventually("goes on", func() bool { return fa.sums.Isolation == exchange.Connected })
	c.http("POST", "/fault/partition?on=false")
	fc.eventually("is back", func() bool { return fc.sums.Isolation == exchange.Connected && fc.sums.Replicas == 4 })
	fa.eventually("has it back", func() bool { return fa.sums.Replicas == 4 })

	fa2.conn.Close() // the process, this test, lives on
	fb.eventually("forgets the lost gateway at T2", func() bool { return fb.sums.Replicas == 3 })
	if code, body := a.http("GET", "/status"); code != http.StatusOK ||
		!strings.Contains(body, `"isolation": "CONNECTED"`) {
		t.Errorf("%d %s", code, body)
	}
	_, metrics := a.http("GET", "/metrics")
	for _, want := range []string{"titrate_agent_gateways", "titrate_agent_peers",
		`titrate_agent_gossip_bytes_total{direction="out"}`,
		"titrate_agent_gossip_delay_seconds", "titrate_agent_contended_keys", "titrate_agent_epoch",
		"titrate_agent_config_revision",
		`titrate_agent_malformed_total{source="link"}`, "titrate_agent_isolation", "titrate_agent_shares_age_seconds"} {
		if !strings.Contains(metrics, "\n"+want) {
			t.Errorf("no metric %s in\n%s", want, metrics)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("c2hvcnQ=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil))
	for want, c := range map[string]Config{
		"--gossip-key-file (openssl": {Gossip: "0.0.0.0:0"},
		"--gossip \"x\"":             {Gossip: "x"},
		"5 bytes, want 16, 24 or 32": {GossipKeyFile: key},
		"--period 1ns":               {Period: 1},
		"--coordinator \"nowhere\"":  {Coordinators: []string{"nowhere"}},
		"more than the first":        {T1: time.Minute, T2: time.Second},
		"want 0 to 10ms":             {ExactWithin: 11 * time.Millisecond},
		"--admin 0.0.0.0:0":          {Admin: "0.0.0.0:0"},
		"--tls-key belong together":  {Security: security("cert", "")},
		"--snapshot-dir":             {SnapshotDir: key + "/no"},
	} {
		if c.Gossip == "" {
			c.Gossip = "127.0.0.1:0"
		}
		if c.Admin == "" {
			c.Admin = "127.0.0.1:0"
		}
		c.Socket, c.Log = filepath.Join(t.TempDir(), "s"), log
		if a, err := c.Complete(context.Background()); err == nil {
			a.close()
			t.Errorf("no error with %q", want)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q, want one with %q", err, want)
		}
	}
}
