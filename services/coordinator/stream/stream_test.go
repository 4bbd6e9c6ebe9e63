package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	agentstream "github.com/titrate/titrate/services/agent/stream"
	"github.com/titrate/titrate/services/coordinator/config"
	"github.com/titrate/titrate/services/coordinator/delivery"
	"github.com/titrate/titrate/services/coordinator/stream"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
)

// recorder is the loop's end. Its leases are those published last, for every agent.
type recorder struct {
	hellos  chan string
	reports chan string
	nacks   chan string
	ahead   chan string
	again   chan string
	left    chan string

	mu     sync.Mutex
	leases *controlv1.Leases
	sent   map[*delivery.Receiver]*controlv1.Leases
}

func (r *recorder) Hello(h *controlv1.Hello) *delivery.Receiver {
	r.hellos <- h.GetAgent()
	return delivery.NewReceiver(h)
}
func (r *recorder) Next(to *delivery.Receiver) []delivery.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leases == nil || r.sent[to] == r.leases {
		return nil
	}
	r.sent[to] = r.leases
	all := &controlv1.Leases{Epoch: r.leases.Epoch, Seq: r.leases.Seq, Revision: r.leases.Revision}
	encoded, err := proto.Marshal(&controlv1.ConnectResponse{Message: &controlv1.ConnectResponse_Leases{Leases: all}})
	return []delivery.Message{{Own: &controlv1.Leases{Leases: r.leases.Leases},
		Common: &delivery.Common{Leases: all, Encoded: encoded, Err: err}}}
}
func (r *recorder) Again(to *delivery.Receiver, reason string) { r.again <- to.Agent() + " " + reason }
func (r *recorder) Ahead(h *controlv1.Hello) {
	r.ahead <- fmt.Sprintf("%s %d %d", h.GetAgent(), h.GetEpoch(), h.GetRevision())
}
func (r *recorder) Report(agent string, m *controlv1.Report) (news bool) {
	r.reports <- fmt.Sprintf("%s %d", agent, m.GetSeq())
	return false
}
func (r *recorder) Left(agent string) { r.left <- agent }
func (r *recorder) Nack(agent string, revision int64, reason string) {
	r.nacks <- fmt.Sprintf("%s %d %s", agent, revision, reason)
}

// bench is a server over memory.
type bench struct {
	t             *testing.T
	server        *stream.Server
	configuration *config.Cache
	loop          *recorder
	bookings      bookings
	client        controlv1.ControlServiceClient
	lines         *lines
}

// lines counts what is logged.
type lines struct{ n atomic.Int64 }

func (l *lines) Write(b []byte) (int, error) {
	l.n.Add(1)
	return len(b), nil
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, configuration: config.New(),
		loop: &recorder{hellos: make(chan string, 64), reports: make(chan string, 64), nacks: make(chan string, 64),
			ahead: make(chan string, 64), again: make(chan string, 64), left: make(chan string, 64),
			sent: map[*delivery.Receiver]*controlv1.Leases{}}}
	b.lines = &lines{}
	b.server = stream.New(b.loop, b.configuration, &b.bookings, stream.Limits{Streams: 3},
		slog.New(slog.NewTextHandler(b.lines, nil)))
	g := grpc.NewServer()
	b.server.Register(g)
	listener := bufconn.Listen(64 << 10)
	go g.Serve(listener)
	conn, err := grpc.NewClient("passthrough:///memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); g.Stop() })
	b.client = controlv1.NewControlServiceClient(conn)
	return b
}

// publish gives every agent leases.
func (b *bench) publish(l *controlv1.Leases) {
	b.loop.mu.Lock()
	b.loop.leases = l
	b.loop.mu.Unlock()
	b.server.Announce()
}

type agent = grpc.BidiStreamingClient[controlv1.ConnectRequest, controlv1.ConnectResponse]

// dial opens a stream and says Hello, unless name is "".
func (b *bench) dial(name string, epoch int64) agent {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 10*time.Second)
	b.t.Cleanup(cancel)
	s, err := b.client.Connect(ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	if name != "" {
		hello := &controlv1.Hello{Agent: name, Epoch: epoch}
		say(b.t, s, &controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Hello{Hello: hello}})
	}
	return s
}

// hello opens a stream with a given Hello.
func (b *bench) hello(h *controlv1.Hello) agent {
	b.t.Helper()
	s := b.dial("", 0)
	say(b.t, s, &controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Hello{Hello: h}})
	return s
}

// say sends a message. Of a stream that the server has ended, Recv has the reason.
func say(t *testing.T, s agent, m *controlv1.ConnectRequest) {
	t.Helper()
	if err := s.Send(m); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

func hear(t *testing.T, s agent) *controlv1.ConnectResponse {
	t.Helper()
	m, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func batch(revision int64, reset bool, names ...string) store.Batch {
	b := store.Batch{Revision: revision, Reset: reset}
	for _, name := range names {
		b.Resources = append(b.Resources,
			&quotav1.Resource{Kind: &quotav1.Resource_Pool{Pool: &quotav1.Pool{Name: "pools/" + name, Capacity: 1}}})
	}
	return b
}

func TestConfigurationComesBeforeItsLeases(t *testing.T) {
	b := newBench(t)
	b.configuration.Apply(batch(3, true, "a", "b"))
	b.server.Open(7, 42, nil)
	b.publish(&controlv1.Leases{Epoch: 7, Seq: 1, Revision: 3})
	s := b.dial("x", 0)
	c := hear(t, s).GetConfiguration()
	if !c.GetFull() || !c.GetLast() || c.GetRevision() != 3 || c.GetSeed() != 42 || len(c.GetResources()) != 2 {
		t.Errorf("first: %v", c)
	}
	if l := hear(t, s).GetLeases(); l.GetRevision() != 3 {
		t.Errorf("second: %v", l)
	}
	next := batch(5, false, "b")
	next.Deleted = []string{"pools/a"}
	b.configuration.Apply(next)
	b.publish(&controlv1.Leases{Epoch: 7, Seq: 2, Revision: 5})
	if c := hear(t, s).GetConfiguration(); c.GetFull() || c.GetRevision() != 5 || len(c.GetResources()) != 1 ||
		!slices.Equal(c.GetDeleted(), []string{"pools/a"}) {
		t.Errorf("difference: %v", c)
	}
	if l := hear(t, s).GetLeases(); l.GetSeq() != 2 {
		t.Errorf("leases: %v", l)
	}
}

// An agent that holds what this coordinator knows is sent what it lacks. Its revision does not
// say what it holds: another history of etcd may have used the same one.
func TestAStreamResumes(t *testing.T) {
	b := newBench(t)
	first := batch(3, true, "a", "b")
	digest := digestOf(first)
	b.configuration.Apply(first)
	b.server.Open(7, 42, nil)
	s := b.hello(&controlv1.Hello{Agent: "x", Revision: 3, Digest: digest})
	c := hear(t, s).GetConfiguration()
	if c.GetFull() || !c.GetLast() || c.GetRevision() != 3 || c.GetSeed() != 42 || c.GetEpoch() != 7 ||
		len(c.GetResources())+len(c.GetDeleted()) != 0 || proto.Size(c) > 40 {
		t.Errorf("an agent that has everything hears %d bytes: %v", proto.Size(c), c)
	}
	next := batch(5, false, "c")
	next.Deleted = []string{"pools/a"}
	b.configuration.Apply(next)
	b.server.Announce()
	for name, s := range map[string]agent{
		"that was there":                       s,
		"that comes with the first":            b.hello(&controlv1.Hello{Agent: "y", Revision: 3, Digest: digest}),
		"that comes with it by other revision": b.hello(&controlv1.Hello{Agent: "z", Revision: 4, Digest: digest}),
	} {
		if c := hear(t, s).GetConfiguration(); c.GetFull() || c.GetRevision() != 5 || len(c.GetResources()) != 1 ||
			!slices.Equal(c.GetDeleted(), []string{"pools/a"}) {
			t.Errorf("an agent %s hears %v", name, c)
		}
	}
	if whole, resumed := b.server.Configurations(); whole != 0 || resumed != 3 {
		t.Errorf("%d whole, %d resumed", whole, resumed)
	}
}

// An agent whose configuration of the same revision is another one is sent the whole.
func TestARevisionAloneDoesNotResume(t *testing.T) {
	b := newBench(t)
	b.configuration.Apply(batch(5, true, "a", "b"))
	b.server.Open(7, 42, nil)
	for name, digest := range map[string]uint64{"other": digestOf(batch(5, true, "b", "d")), "silent": 0} {
		s := b.hello(&controlv1.Hello{Agent: name, Revision: 5, Digest: digest})
		if c := hear(t, s).GetConfiguration(); !c.GetFull() || len(c.GetResources()) != 2 {
			t.Errorf("an agent that holds digest %x hears %v", digest, c)
		}
	}
	if whole, resumed := b.server.Configurations(); whole != 2 || resumed != 0 {
		t.Errorf("%d whole, %d resumed", whole, resumed)
	}
}

// digestOf is the digest of a whole configuration.
func digestOf(b store.Batch) uint64 {
	var d resource.Digest
	for _, r := range b.Resources {
		d = d.Replace(nil, r)
	}
	return uint64(d)
}

func TestReportsAndRefusalsReachTheLoop(t *testing.T) {
	b := newBench(t)
	b.configuration.Apply(batch(3, true, "a"))
	b.server.Open(7, 42, nil)
	s := b.dial("x", 0)
	c := hear(t, s).GetConfiguration()
	say(t, s, &controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Report{Report: &controlv1.Report{Seq: 9}}})
	say(t, s, &controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Ack{Ack: &controlv1.Ack{Nonce: 999,
		Error: "never sent"}}})
	say(t, s, &controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Ack{Ack: &controlv1.Ack{Nonce: c.GetNonce(),
		Error: "no such law"}}})
	say(t, s, &controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Ack{Ack: &controlv1.Ack{Error: "a gap"}}})
	if got := <-b.loop.hellos; got != "x" {
		t.Errorf("hello from %q", got)
	}
	if got := <-b.loop.reports; got != "x 9" {
		t.Errorf("report %q", got)
	}
	if got := <-b.loop.nacks; got != "x 3 no such law" {
		t.Errorf("nack %q", got)
	}
	if got := <-b.loop.again; got != "x a gap" {
		t.Errorf("missed leases: %q", got)
	}
}

func TestLargeConfigurationComesInChunks(t *testing.T) {
	b := newBench(t)
	long := store.Batch{Revision: 1, Reset: true}
	for i := range 3000 {
		long.Resources = append(long.Resources, &quotav1.Resource{Kind: &quotav1.Resource_Tenant{
			Tenant: &quotav1.Tenant{Name: fmt.Sprintf("tenants/t%d", i), DisplayName: strings.Repeat("x", 500)}}})
	}
	b.configuration.Apply(long)
	b.server.Open(1, 1, nil)
	s := b.dial("x", 0)
	for chunks, resources := 1, 0; ; chunks++ {
		c := hear(t, s).GetConfiguration()
		resources += len(c.GetResources())
		if !c.GetFull() {
			t.Fatal("a chunk of a full configuration is not marked full")
		}
		if c.GetLast() {
			if resources != 3000 || chunks < 3 {
				t.Errorf("%d resources in %d chunks", resources, chunks)
			}
			return
		}
	}
}

// An agent that does not read must not keep anything from another.
func TestSlowAgentDelaysNobody(t *testing.T) {
	b := newBench(t)
	b.configuration.Apply(batch(1, true, "a"))
	b.server.Open(1, 1, nil)
	b.dial("slow", 0)
	quick := b.dial("quick", 0)
	for range 2 {
		<-b.loop.hellos
	}
	hear(t, quick) // configuration
	bulk := make([]*controlv1.Lease, 5000)
	for i := range bulk {
		bulk[i] = &controlv1.Lease{Tenant: fmt.Sprintf("tenant-%d", i), Pool: "a", Share: 1}
	}
	const last = 50
	for seq := range uint64(last) {
		b.publish(&controlv1.Leases{Epoch: 1, Seq: seq + 1, Leases: bulk})
	}
	for before := uint64(0); before < last; {
		l := hear(t, quick).GetLeases()
		if l.GetSeq() <= before || len(l.GetLeases()) != len(bulk) {
			t.Fatalf("seq %d with %d leases after %d", l.GetSeq(), len(l.GetLeases()), before)
		}
		before = l.GetSeq()
	}
}

func TestStreamsEndWithTheReason(t *testing.T) {
	b := newBench(t)
	end := func(s agent) error {
		for {
			if _, err := s.Recv(); err != nil {
				return err
			}
		}
	}
	check := func(what string, err error, code codes.Code, text string) {
		t.Helper()
		if status.Code(err) != code || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", what, err)
		}
	}
	err := end(b.dial("early", 0))
	check("closed gate", err, codes.FailedPrecondition, "no leader is known")
	details := fmt.Sprint(status.Convert(err).Details())
	if leader := agentstream.LeaderOf(err); leader != "" || !strings.Contains(details, stream.NotLeading) {
		t.Errorf("leader %q, details %s", leader, details)
	}
	b.server.Open(5, 1, nil)
	check("higher epoch", end(b.dial("ahead", 6)), codes.Aborted, "has obeyed epoch 6")
	silent := b.dial("", 0)
	say(t, silent, &controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Report{Report: &controlv1.Report{}}})
	check("no hello", end(silent), codes.InvalidArgument, "must be a Hello")
	first := b.dial("twin", 5)
	<-b.loop.hellos
	second := b.dial("twin", 5)
	<-b.loop.hellos
	check("replaced", end(first), codes.Aborted, "another stream")
	if names := b.server.Agents(); !slices.Equal(names, []string{"twin"}) {
		t.Errorf("agents %v", names)
	}
	b.server.Shut(stream.NotLeader("10.0.0.2:7400"))
	err = end(second)
	check("moved", err, codes.FailedPrecondition, "the leader is at 10.0.0.2:7400")
	if leader := agentstream.LeaderOf(err); leader != "10.0.0.2:7400" {
		t.Errorf("leader %q", leader)
	}
}

// What etcd has lost stays in force at the agents that have it, until the coordinator
// has a higher revision: an empty store must not take every limit away.
func TestAnOlderRevisionIsNotSent(t *testing.T) {
	b := newBench(t)
	b.configuration.Apply(batch(0, true))
	b.server.Open(7, 42, nil)
	b.publish(&controlv1.Leases{Epoch: 7, Seq: 1})
	fresh := b.hello(&controlv1.Hello{Agent: "fresh"})
	if c := hear(t, fresh).GetConfiguration(); !c.GetFull() || c.GetEpoch() != 7 {
		t.Errorf("an agent without anything hears %v", c)
	}
	s := b.hello(&controlv1.Hello{Agent: "x", Revision: 9})
	if got := <-b.loop.ahead; got != "x 0 9" {
		t.Errorf("ahead: %q", got)
	}
	b.configuration.Apply(batch(10, true, "a"))
	b.server.Announce()
	if c := hear(t, s).GetConfiguration(); c.GetRevision() != 10 {
		t.Errorf("the first that it hears is %v", c)
	}
	if l := hear(t, s).GetLeases(); l.GetSeq() != 1 {
		t.Errorf("then %v", l)
	}
	end := b.hello(&controlv1.Hello{Agent: "y", Epoch: 8})
	if _, err := end.Recv(); status.Code(err) != codes.Aborted {
		t.Errorf("an agent of a higher epoch: %v", err)
	}
	if got := <-b.loop.ahead; got != "y 8 0" {
		t.Errorf("ahead: %q", got)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	b := newBench(t)
	b.configuration.Apply(batch(1, true))
	b.server.Open(1, 1, nil)
	var open []agent
	for i := range 3 {
		open = append(open, b.dial(fmt.Sprint(i), 0))
		hear(t, open[i])
	}
	if _, err := b.dial("more", 0).Recv(); status.Code(err) != codes.ResourceExhausted ||
		!strings.Contains(err.Error(), "--max-streams") {
		t.Errorf("the fourth of three: %v", err)
	}
	if b.server.Refused() != 1 {
		t.Errorf("%d refused", b.server.Refused())
	}
	if err := open[0].CloseSend(); err != nil {
		t.Fatal(err)
	}
	for { // until the server has counted it out
		if _, err := open[0].Recv(); err != nil {
			break
		}
	}
	hear(t, b.dial("next", 0))
}

// A stream with nothing to say says so: its agent takes silence for death.
func TestAStreamIsNeverSilent(t *testing.T) {
	b := newBench(t)
	b.server.Open(1, 1, nil)
	if m := hear(t, b.dial("x", 0)); m.GetMessage() != nil {
		t.Errorf("%v", m)
	}
}

// question receives until a question comes.
func question(t *testing.T, s agent) *controlv1.Question {
	t.Helper()
	for {
		if q := hear(t, s).GetQuestion(); q != nil {
			return q
		}
	}
}

// Agents are asked over their streams. An agent that does not answer, or is too old to, is named.
func TestAsk(t *testing.T) {
	b := newBench(t)
	b.server.Open(7, 42, nil)
	x := b.hello(&controlv1.Hello{Agent: "x", Answers: true})
	b.hello(&controlv1.Hello{Agent: "old"})
	<-b.loop.hellos
	<-b.loop.hellos
	asking := &controlv1.Question{Selection: &quotav1.Selection{Tenant: "acme"}}
	go func() {
		q := question(t, x)
		row := &quotav1.Activity{Tenant: q.GetSelection().GetTenant(), Refused: 3}
		for range 2 { // twice: that counts once
			say(t, x, &controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Answer{
				Answer: &controlv1.Answer{Id: q.GetId(), Rows: []*quotav1.Activity{row}}}})
		}
	}()
	r := b.server.Ask(t.Context(), asking)
	if len(r.Answers) != 1 || r.Answers[0].Rows[0].GetRefused() != 3 || r.Answers[0].Rows[0].Tenant != "acme" ||
		r.Asked != 2 || !slices.Equal(r.Silent, []string{"old"}) {
		t.Errorf("x answers: %+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { question(t, x); cancel() }() // it has been asked, and does not answer
	if r := b.server.Ask(ctx, asking); len(r.Answers) != 0 || !slices.Equal(r.Silent, []string{"old", "x"}) {
		t.Errorf("x is silent: %+v", r)
	}
}

// An agent that closes its side has left in order; one whose stream breaks has not.
func TestAgentsLeaveInOrder(t *testing.T) {
	b := newBench(t)
	b.server.Open(7, 42, nil)
	ctx, breaks := context.WithCancel(t.Context())
	broken, err := b.client.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	say(t, broken, &controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Hello{
		Hello: &controlv1.Hello{Agent: "breaks"}}})
	<-b.loop.hellos
	breaks()
	leaves := b.dial("leaves", 0)
	<-b.loop.hellos
	if err := leaves.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if got := <-b.loop.left; got != "leaves" {
		t.Errorf("%s has left, its stream broke", got)
	}
}

// An agent whose name another process has, which reports, is refused and sent that one's address. When the other one
// has crashed or is cut off, the name is free.
func TestNameInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.server.Open(5, 1, nil)
		begin := func(process uint64) agent {
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(cancel)
			s, err := b.client.Connect(ctx)
			if err != nil {
				t.Fatal(err)
			}
			hello := &controlv1.Hello{Agent: "twin", Process: process}
			say(t, s, &controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Hello{Hello: hello}})
			return s
		}
		refused := func(process uint64) {
			t.Helper()
			_, err := begin(process).Recv()
			details := fmt.Sprint(status.Convert(err).Details())
			if status.Code(err) != codes.AlreadyExists || !strings.Contains(err.Error(), `"twin" is in use`) ||
				!strings.Contains(err.Error(), "bufconn") || !strings.Contains(details, stream.NameInUse) {
				t.Errorf("%v, %s", err, details)
			}
		}
		first := begin(1)
		<-b.loop.hellos
		for range 40 { // ten seconds
			refused(2)
			say(t, first, &controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Report{Report: &controlv1.Report{}}})
			<-b.loop.reports
			time.Sleep(250 * time.Millisecond)
		}
		if n := b.lines.n.Load(); n != 2 { // that the first has connected, and a refusal
			t.Errorf("%d lines", n)
		}
		if err := b.server.Trouble(); err == nil || !strings.Contains(err.Error(), "twin") {
			t.Errorf("alarm %v", err)
		}
		first = begin(1) // the same process again: at once
		if got := <-b.loop.hellos; got != "twin" {
			t.Error(got)
		}
		time.Sleep(5 * time.Second) // it says nothing
		begin(2)
		<-b.loop.hellos
		for {
			if _, err := first.Recv(); err != nil { // what came before are signs of life
				break
			}
		}
		time.Sleep(time.Minute)
		if err := b.server.Trouble(); err != nil {
			t.Errorf("alarm %v", err)
		}
	})
}

// Two older agents of one name, which do not say which process they are, end each other's streams without end: what is
// logged of that is bounded.
func TestTwoAgentsOfOneNameAreLoggedOnce(t *testing.T) {
	b := newBench(t)
	b.server.Open(5, 1, nil)
	last := b.dial("twin", 5)
	<-b.loop.hellos
	for range 20 {
		next := b.dial("twin", 5)
		<-b.loop.hellos
		for {
			if _, err := last.Recv(); err != nil {
				break
			}
		}
		last = next
	}
	if n := b.lines.n.Load(); n != 2 { // that it has connected, and that it was replaced
		t.Errorf("%d lines", n)
	}
}
