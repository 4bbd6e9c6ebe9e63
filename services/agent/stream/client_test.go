package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a coordinator that does what a test says.
type script struct {
	controlv1.UnimplementedControlServiceServer
	play func(controlv1.ControlService_ConnectServer) error
}

func (s *script) Connect(stream controlv1.ControlService_ConnectServer) error { return s.play(stream) }

// fleet is coordinators by name, reached in memory.
type fleet map[string]*bufconn.Listener

func (f fleet) add(t *testing.T, name string, play func(controlv1.ControlService_ConnectServer) error) {
	l := bufconn.Listen(1 << 16)
	f[name] = l
	server := grpc.NewServer()
	controlv1.RegisterControlServiceServer(server, &script{play: play})
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-done })
}

func (f fleet) dial() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, name string) (net.Conn, error) {
			if l := f[name]; l != nil {
				return l.DialContext(ctx)
			}
			return nil, errors.New("nobody listens at " + name)
		}),
	}
}

// agent records.
type agent struct {
	mu       sync.Mutex
	received []*controlv1.ConnectResponse
	refuse   error
}

func (a *agent) Hello() *controlv1.Hello {
	return &controlv1.Hello{Agent: "agent-1", Epoch: 4, Revision: 9}
}
func (a *agent) Report() *controlv1.Report { return &controlv1.Report{} }

func (a *agent) Outgoing() <-chan *controlv1.ConnectRequest { return nil }

func (a *agent) Receive(m *controlv1.ConnectResponse) (*controlv1.ConnectRequest, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.received = append(a.received, m)
	if c := m.GetConfiguration(); c != nil {
		return &controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Ack{
			Ack: &controlv1.Ack{Nonce: c.GetNonce()}}}, nil
	}
	return nil, a.refuse
}

func start(t *testing.T, f fleet, a *agent, o Options) *Client {
	t.Helper()
	o.Dial, o.Log = f.dial(), slog.New(slog.DiscardHandler)
	o.Every = 10 * time.Millisecond
	c := New(o, a)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return c
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never %s", what)
		}
	}
}

func notLeader(leader string) error {
	s, err := status.New(codes.FailedPrecondition, "not the leader").WithDetails(&errdetails.ErrorInfo{
		Reason: "NOT_LEADER", Domain: "titrate.dev", Metadata: map[string]string{"leader": leader}})
	if err != nil {
		return err
	}
	return s.Err()
}

func grant(epoch int64) *controlv1.ConnectResponse {
	return &controlv1.ConnectResponse{Message: &controlv1.ConnectResponse_Leases{Leases: &controlv1.Leases{Epoch: epoch}}}
}

func TestFollowsTheLeader(t *testing.T) {
	f := fleet{}
	requests := make(chan *controlv1.ConnectRequest, 256)
	f.add(t, "standby",
		func(s controlv1.ControlService_ConnectServer) error { return notLeader("passthrough:///leader") })
	f.add(t, "leader", func(s controlv1.ControlService_ConnectServer) error {
		conf := &controlv1.ConnectResponse{Message: &controlv1.ConnectResponse_Configuration{Configuration: &controlv1.Configuration{Nonce: 6}}}
		if err := s.Send(conf); err != nil {
			return err
		}
		for {
			m, err := s.Recv()
			if err != nil {
				return err
			}
			select {
			case requests <- m:
			default:
			}
		}
	})
	c := start(t, f, &agent{}, Options{Addresses: []string{"passthrough:///gone", "passthrough:///standby"}})
	if h := (<-requests).GetHello(); h.GetAgent() != "agent-1" || h.GetEpoch() != 4 || h.GetRevision() != 9 {
		t.Fatalf("hello %v", h)
	}
	var acked bool
	var seq uint64
	for !acked || seq < 3 {
		m := <-requests
		if a := m.GetAck(); a != nil {
			acked = a.GetNonce() == 6
		}
		if r := m.GetReport(); r != nil {
			if r.GetSeq() != seq+1 {
				t.Fatalf("report %d after %d", r.GetSeq(), seq)
			}
			seq = r.GetSeq()
		}
	}
	eventually(t, "connected", func() bool { return c.Status().Connected })
	if s := c.Status(); s.Address != "passthrough:///leader" || s.Error != "" {
		t.Errorf("%+v", s)
	}
}

// Two that name each other as leader must not be asked in a tight loop.
func TestHintsInACircle(t *testing.T) {
	f := fleet{}
	var mu sync.Mutex
	asked := 0
	for name, other := range map[string]string{"a": "b", "b": "a"} {
		f.add(t, name, func(controlv1.ControlService_ConnectServer) error {
			mu.Lock()
			defer mu.Unlock()
			asked++
			return notLeader("passthrough:///" + other)
		})
	}
	c := start(t, f, &agent{}, Options{Addresses: []string{"passthrough:///a"}})
	begin := time.Now()
	eventually(t, "asked thrice", func() bool { return c.Status().Failures >= 6 })
	// Three pauses of at least 25, 50 and 100 ms lie between: a bound from below.
	if took := time.Since(begin); took < 75*time.Millisecond {
		t.Errorf("six attempts within %v", took)
	}
}

func TestRefusalEndsTheStream(t *testing.T) {
	f := fleet{}
	f.add(t, "old", func(s controlv1.ControlService_ConnectServer) error {
		if err := s.Send(grant(1)); err != nil {
			return err
		}
		<-s.Context().Done()
		return s.Context().Err()
	})
	f.add(t, "new", func(s controlv1.ControlService_ConnectServer) error {
		<-s.Context().Done()
		return s.Context().Err()
	})
	c := start(t, f, &agent{refuse: errors.New("epoch 1 refused")}, Options{Addresses: []string{"passthrough:///old"}})
	eventually(t, "came back", func() bool { return c.Status().Streams >= 2 })
}

func TestSilentCoordinatorIsLeft(t *testing.T) {
	f := fleet{}
	f.add(t, "mute", func(s controlv1.ControlService_ConnectServer) error {
		<-s.Context().Done()
		return s.Context().Err()
	})
	f.add(t, "talks", func(s controlv1.ControlService_ConnectServer) error {
		for s.Send(grant(1)) == nil {
			select {
			case <-s.Context().Done():
				return nil
			case <-time.After(10 * time.Millisecond):
			}
		}
		return nil
	})
	c := start(t, f, &agent{}, Options{Addresses: []string{"passthrough:///mute", "passthrough:///talks"},
		Silence: 300 * time.Millisecond})
	eventually(t, "with the one that talks", func() bool {
		s := c.Status()
		return s.Connected && s.Address == "passthrough:///talks"
	})
}

func TestBlock(t *testing.T) {
	f := fleet{}
	f.add(t, "a", func(s controlv1.ControlService_ConnectServer) error {
		if err := s.Send(grant(1)); err != nil {
			return err
		}
		<-s.Context().Done()
		return s.Context().Err()
	})
	c := start(t, f, &agent{}, Options{Addresses: []string{"passthrough:///a"}})
	eventually(t, "connected", func() bool { return c.Status().Connected })
	c.Block(true)
	eventually(t, "cut off", func() bool { return c.Status().Error == errBlocked.Error() })
	c.Block(false)
	eventually(t, "connected again", func() bool { return c.Status().Connected })
}

func TestLeaderOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{notLeader("x:1"), "x:1"}, {notLeader(""), ""}, {nil, ""}, {errors.New("x"), ""},
		{status.Error(codes.FailedPrecondition, "other"), ""}, {status.Error(codes.Unavailable, "x"), ""},
	} {
		if got := LeaderOf(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

// TestLeave: the coordinator receives a last report and the end of the agent's side, and no other stream is opened.
func TestLeave(t *testing.T) {
	f, a := fleet{}, &agent{}
	var mu sync.Mutex
	streams, reports, closed := 0, 0, false
	f.add(t, "one", func(s controlv1.ControlService_ConnectServer) error {
		mu.Lock()
		streams++
		mu.Unlock()
		for {
			m, err := s.Recv()
			mu.Lock()
			if m.GetReport() != nil {
				reports++
			}
			closed = errors.Is(err, io.EOF)
			mu.Unlock()
			if err != nil {
				return err
			}
		}
	})
	o := Options{Addresses: []string{"passthrough:///one"}}
	o.Dial, o.Log, o.Every = f.dial(), slog.New(slog.DiscardHandler), time.Hour // no other report
	c := New(o, a)
	done := make(chan error, 1)
	go func() { done <- c.Run(t.Context()) }()
	eventually(t, "connected", func() bool { mu.Lock(); defer mu.Unlock(); return streams == 1 })
	c.Leave()
	c.Leave()
	if err := <-done; err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if streams != 1 || reports != 1 || !closed {
		t.Errorf("%d streams, %d reports, closed %v; want 1, 1, true", streams, reports, closed)
	}
}

// An agent whose name another one has says so once a minute, and asks less and less often.
func TestNameInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusal, err := status.New(codes.AlreadyExists, "the name is in use by another agent").WithDetails(
			&errdetails.ErrorInfo{Reason: "NAME_IN_USE", Domain: "titrate.dev"})
		if err != nil {
			t.Fatal(err)
		}
		var asked []time.Time
		var mu sync.Mutex
		f := fleet{}
		f.add(t, "one", func(controlv1.ControlService_ConnectServer) error {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, time.Now())
			return refusal.Err()
		})
		var out bytes.Buffer
		c := New(Options{Addresses: []string{"passthrough:///one"}, Dial: f.dial(),
			Log: slog.New(slog.NewTextHandler(&out, nil))}, &agent{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		time.Sleep(3 * time.Second)
		mu.Lock()
		soon := len(asked)
		mu.Unlock()
		time.Sleep(5*time.Minute - 3*time.Second)
		s := c.Status()
		cancel()
		<-done
		if soon < 5 || len(asked) > soon+40 || !s.NameInUse || !strings.Contains(s.Error, "in use") {
			t.Errorf("asked %d times in 3 s, %d in 5 min; %+v", soon, len(asked), s)
		}
		if n := strings.Count(out.String(), "\n"); n < 4 || n > 5 {
			t.Errorf("%d lines in 5 min:\n%s", n, &out)
		}
	})
}

// An agent whose streams another agent of its name ends again and again logs a few lines of that.
func TestEndedStreamsAreLoggedInBounds(t *testing.T) {
	var out bytes.Buffer
	c := New(Options{Log: slog.New(slog.NewTextHandler(&out, nil))}, nil)
	for range 1000 {
		c.received("127.0.0.1:1")
		c.ended("127.0.0.1:1", true, status.Error(codes.Aborted, "another stream has said Hello"))
	}
	if n := strings.Count(out.String(), "\n"); n != linesPerMinute {
		t.Errorf("%d lines", n)
	}
}
