package intake_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/emptypb"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/intake"
)

// api panics over one pool, and answers the others.
type api struct {
	quotav1.UnimplementedQuotaServiceServer
	controlv1.UnimplementedControlServiceServer
	applied int
	during  func()       // Apply
	failure func() error // of GetTenant
}

func (*api) GetPool(_ context.Context, r *quotav1.GetPoolRequest) (*quotav1.Pool, error) {
	if r.GetName() == "panic" {
		panic("a fault")
	}
	return &quotav1.Pool{Name: r.GetName()}, nil
}

func (a *api) Apply(context.Context, *quotav1.ApplyRequest) (*quotav1.ApplyResponse, error) {
	a.applied++
	if a.during != nil {
		a.during()
	}
	return &quotav1.ApplyResponse{}, nil
}

func (a *api) GetTenant(context.Context, *quotav1.GetTenantRequest) (*quotav1.Tenant, error) {
	return nil, a.failure()
}

func (*api) Connect(s controlv1.ControlService_ConnectServer) error {
	r, err := s.Recv()
	if err == nil && r.GetHello().GetAgent() == "panic" {
		panic("a fault")
	}
	return err
}

// served is an intake with its server and a client.
type served struct {
	*intake.Intake
	api  *api
	conn *grpc.ClientConn
	log  bytes.Buffer

	listener *bufconn.Listener
}

const most = 1000 // bytes of a message; it may have 10 entries

func serve(t *testing.T, admit func(context.Context, string) error, unary ...grpc.UnaryServerInterceptor) *served {
	t.Helper()
	return serveWith(t, intake.Options{Admit: admit, Unary: unary,
		Bounds: func(string) intake.Bounds { return intake.Bounds{Bytes: most, Entries: 10} }})
}

func serveWith(t *testing.T, of intake.Options, dial ...grpc.DialOption) *served {
	t.Helper()
	s := &served{api: &api{}}
	of.Log = slog.New(slog.NewTextHandler(&s.log, nil))
	s.Intake = intake.New(of)
	server := grpc.NewServer(s.ServerOptions()...)
	quotav1.RegisterQuotaServiceServer(s.Registrar(server), s.api)
	controlv1.RegisterControlServiceServer(s.Registrar(server), s.api)
	for name, service := range server.GetServiceInfo() {
		for _, m := range service.Methods {
			if !m.IsClientStream && !m.IsServerStream {
				t.Errorf("%s/%s: gRPC reads its message before anybody is asked", name, m.Name)
			}
		}
	}
	s.listener = bufconn.Listen(1 << 20)
	go func() { _ = server.Serve(s.listener) }()
	var err error
	s.conn, err = grpc.NewClient("passthrough:x", append(dial,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return s.listener.Dial() }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.conn.Close(); server.Stop() })
	return s
}

// raw sends bytes as they are.
type raw struct{}

func (raw) Name() string { return "proto" }
func (raw) Marshal(m any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(m.([]byte))}, nil
}
func (raw) Unmarshal(mem.BufferSlice, any) error { return nil }

func (s *served) send(t *testing.T, method string, message []byte, options ...grpc.CallOption) error {
	t.Helper()
	return s.conn.Invoke(t.Context(), method, message, &emptypb.Empty{}, append(options, grpc.ForceCodecV2(raw{}))...)
}

// Four messages are refused and counted, each with its reason: too many bytes, too many entries,
// compressed, unreadable. A message within the bounds is answered.
func TestMessagesAreBounded(t *testing.T) {
	s := serve(t, nil)
	resource := []byte{0x0a, 0x00}
	for _, c := range []struct {
		what    string
		message []byte
		options []grpc.CallOption
		code    codes.Code
		says    string
	}{
		{"ten resources", bytes.Repeat(resource, 10), nil, codes.OK, ""},
		{"eleven", bytes.Repeat(resource, 11), nil, codes.ResourceExhausted, "more than 10 entries"},
		{"a long one", make([]byte, most+1), nil, codes.ResourceExhausted, "1001 bytes: want at most 1000"},
		{"a compressed one", bytes.Repeat(resource, 10), []grpc.CallOption{grpc.UseCompressor("gzip")},
			codes.Unimplemented, "compressed"},
		{"none", []byte{0x0a, 0x05}, nil, codes.InvalidArgument, "cannot be read as titrate.quota.v1alpha1.ApplyRequest"},
		{"unknown fields", bytes.Repeat([]byte{0xaa, 0x06, 0x00}, 100), nil, codes.OK, ""},
	} {
		err := s.send(t, quotav1.QuotaService_Apply_FullMethodName, c.message, c.options...)
		if status.Code(err) != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v and %q", c.what, err, c.code, c.says)
		}
	}
	if got := fmt.Sprint(s.Refused()); got != "[1 1 1 1 0 0 0]" || s.api.applied != 2 {
		t.Errorf("refused %s, want one for each of the first four of %v; %d handled, want 2", got, intake.Reasons, s.api.applied)
	}
}

// A message is refused by its length alone: nothing of it comes. This fails where gRPC's stream no longer has
// the methods that wire wants.
func TestALongMessageIsRefusedByItsLength(t *testing.T) {
	s := serve(t, nil)
	stream, err := s.conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true},
		controlv1.ControlService_Connect_FullMethodName, grpc.ForceCodecV2(raw{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg(make([]byte, most+1)); err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(&emptypb.Empty{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("over a stream: %v", err)
	}
	got, err := quotav1.NewQuotaServiceClient(s.conn).GetPool(t.Context(), &quotav1.GetPoolRequest{Name: "pools/x"})
	if err != nil || got.GetName() != "pools/x" {
		t.Errorf("a short one: %v, %v", got, err)
	}
}

// Admit is asked before a message comes, of calls and of streams.
func TestAdmitIsAskedBeforeTheMessage(t *testing.T) {
	s := serve(t, func(_ context.Context, method string) error {
		return status.Error(codes.Unauthenticated, "who are you? "+method)
	})
	for _, method := range []string{quotav1.QuotaService_Apply_FullMethodName, controlv1.ControlService_Connect_FullMethodName} {
		stream, err := s.conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, method)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(&emptypb.Empty{}); status.Code(err) != codes.Unauthenticated ||
			!strings.Contains(err.Error(), method) {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// A panic of a handler fails its call, of a method and of a stream; it is counted and logged with its stack,
// and the server goes on.
func TestAPanicFailsItsCallAlone(t *testing.T) {
	s := serve(t, nil)
	client := quotav1.NewQuotaServiceClient(s.conn)
	_, err := client.GetPool(t.Context(), &quotav1.GetPoolRequest{Name: "panic"})
	if status.Code(err) != codes.Internal {
		t.Errorf("a method: %v", err)
	}
	stream, err := controlv1.NewControlServiceClient(s.conn).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hello := &controlv1.Hello{Agent: "panic"}
	if err := stream.Send(&controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Hello{Hello: hello}}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Internal {
		t.Errorf("a stream: %v", err)
	}
	_, err = s.Recover(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/x/Y"},
		func(context.Context, any) (any, error) { panic("a fault") })
	if status.Code(err) != codes.Internal {
		t.Errorf("over HTTP: %v", err)
	}
	if _, err := client.GetPool(t.Context(), &quotav1.GetPoolRequest{Name: "x"}); err != nil {
		t.Errorf("the next call: %v", err)
	}
	if log := s.log.String(); s.Panics() != 3 || !strings.Contains(log, "intake_test.go") ||
		!strings.Contains(log, "a fault") {
		t.Errorf("%d panics, log %s", s.Panics(), log)
	}
}

// Interceptors see each call of a method, with its request.
func TestInterceptorsSeeTheRequest(t *testing.T) {
	var seen string
	s := serve(t, nil, func(ctx context.Context, r any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		seen = info.FullMethod + " " + r.(*quotav1.GetPoolRequest).GetName()
		return next(ctx, r)
	})
	_, err := quotav1.NewQuotaServiceClient(s.conn).GetPool(t.Context(), &quotav1.GetPoolRequest{Name: "pools/x"})
	if err != nil || seen != "/titrate.quota.v1alpha1.QuotaService/GetPool pools/x" {
		t.Errorf("%q, %v", seen, err)
	}
}

// What is refused before its call is handled is counted by reason, logged once a minute, and an alarm for two.
func TestRefusalsAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		in := intake.New(intake.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		for second := range 150 {
			in.Refuse(intake.ByForm, fmt.Errorf("no message %d", second))
			time.Sleep(time.Second)
		}
		if n := strings.Count(log.String(), "reason=malformed"); n != 3 {
			t.Errorf("%d lines in 150 s:\n%s", n, log.String())
		}
		const last = `malformed, 150 since the start, the last one: "no message 149"`
		if err := in.Trouble(); err == nil || !strings.Contains(err.Error(), last) {
			t.Errorf("alarm: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if err := in.Trouble(); err != nil || in.Refused()[intake.ByForm] != 150 {
			t.Errorf("two minutes later: %v, %v", err, in.Refused())
		}
	})
}

// The alarm names each reason of the last two minutes, so no stranger who calls methods that the server does not have
// hides another one; that reason comes last.
func TestTheAlarmNamesEachReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := intake.New(intake.Options{Log: slog.New(slog.DiscardHandler)})
		unknown := intake.Reason(slices.Index(intake.Reasons[:], "unknown_method"))
		in.Refuse(intake.ByLength, errors.New("too long"))
		for range 90 {
			time.Sleep(time.Second)
			in.Refuse(unknown, errors.New("no method /x/y"))
		}
		in.Refuse(intake.ByForm, errors.New("no message"))
		in.Refuse(unknown, errors.New("no method /x/y"))
		const form, last = `malformed, 1 since the start, the last one: "no message"; `,
			`unknown_method, 91 since the start, the last one: "no method /x/y"`
		want := `length, 1 since the start, the last one: "too long"; ` + form + last
		if err := in.Trouble(); err == nil || !strings.HasSuffix(err.Error(), ": "+want) {
			t.Errorf("got %v, want %s", err, want)
		}
		time.Sleep(31 * time.Second)
		if err := in.Trouble(); err == nil || !strings.HasSuffix(err.Error(), "handled: "+form+last) {
			t.Errorf("two minutes after the first: %v", err)
		}
	})
}

// A call of a method that the server does not have is answered so, and is seen, too; the guard is not asked.
func TestUnknownMethodsAreSeen(t *testing.T) {
	s := serve(t, func(context.Context, string) error { return status.Error(codes.PermissionDenied, "no") })
	err := s.conn.Invoke(t.Context(), "/titrate.quota.v1alpha1.QuotaService/Later", &emptypb.Empty{}, &emptypb.Empty{})
	if status.Code(err) != codes.Unimplemented || s.Trouble() == nil {
		t.Errorf("%v, alarm %v", err, s.Trouble())
	}
}
