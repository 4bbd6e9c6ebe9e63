// Package rest serves the admin API as JSON over HTTP, for those without gRPC.
//
// # Model
//
//	HTTP request ──► gateway ──► local ──► interceptors ──► quota.Server, access.Server
//
// proto/titrate/quota/v1alpha1/http.yaml maps requests to methods. From it make generate makes the package gateway,
// which reads requests and writes answers, and openapi.json, which is served as a file. A call stays in this process
// (local), and passes the interceptors of gRPC's calls. The caller's certificate and its token are where gRPC has
// them, so that roles, ceilings, history and audit work as with gRPC.
//
// # Invariants
//
//   - A field of a body and a parameter of a query that the API does not have are refused.
//   - PATCH changes the fields that its body has and no other; PUT replaces all.
//   - A body is bounded by its method, in bytes and in entries, before it is decoded; none is read of
//     who may not call the method.
//   - A page that a browser has from elsewhere changes nothing. While callers are not known,
//     it reads nothing either, whatever name it finds for this port's address.
package rest

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/encoding/protojson"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/intake"
	"github.com/titrate/titrate/services/rest/gateway"
	"github.com/titrate/titrate/services/telemetry"
	"github.com/titrate/titrate/services/wording"
)

// Document is the OpenAPI document, version 2.
//
//go:embed openapi.json
var Document []byte

// Options of a Server.
type Options struct {
	// Interceptors are passed by each call, the first one first.
	Interceptors []grpc.UnaryServerInterceptor
	// Admit is asked before a body is read: nil lets a call of the method in, whose resources are
	// not known yet. The interceptors decide. Nil = all are let in.
	Admit func(ctx context.Context, method string) error
	// Bounds returns the bounds of a method's body. A body of more bytes or entries is refused with 413.
	Bounds func(method string) intake.Bounds
	// Room bounds the memory of all bodies: a body takes twice its length until its call is answered. A call
	// that finds no room is refused with 429. It notes bodies that are refused, too. Nil = no bound.
	Room interface {
		Take(method string, bytes int64) error
		Give(bytes int64)
		Refuse(reason intake.Reason, why error)
	}
	// Anyone says that callers are not known. Then the Host of a request without TLS is checked: it must be a
	// loopback name, an address, or one of Names.
	Anyone bool
	Names  []string
	// Answered is called with the status of each answer; nil = not called.
	Answered func(status int)
}

// Server answers requests. Services are registered with it as with a grpc.Server, before Handler.
type Server struct {
	of    Options
	calls local
}

// New returns a server without services.
func New(of Options) *Server {
	return &Server{of: of, calls: local{methods: map[string]method{}, intercept: intake.Chain(of.Interceptors)}}
}

// RegisterService implements grpc.ServiceRegistrar.
func (s *Server) RegisterService(d *grpc.ServiceDesc, impl any) { s.calls.register(d, impl) }

// Handler answers requests to the services.
func (s *Server) Handler() (http.Handler, error) {
	mux := runtime.NewServeMux(runtime.WithErrorHandler(refuse), runtime.WithRoutingErrorHandler(unrouted),
		runtime.WithMarshalerOption(runtime.MIMEWildcard, &body{
			runtime.JSONPb{MarshalOptions: protojson.MarshalOptions{EmitDefaultValues: true}}}),
		runtime.WithMetadata(s.admitted), runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride())
	ctx := context.Background()
	err := errors.Join(
		gateway.RegisterQuotaServiceHandlerClient(ctx, mux, quotav1.NewQuotaServiceClient(&s.calls)),
		gateway.RegisterAccessServiceHandlerClient(ctx, mux, quotav1.NewAccessServiceClient(&s.calls)))
	if err != nil {
		return nil, err
	}
	all := http.NewServeMux()
	all.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(Document)
	})
	all.Handle("/", s.bounded(mux))
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		write(w, forbidden("a page of another origin (%s) may not call this", r.Header.Get("Origin")))
	}))
	return s.counted(s.named(origins.Handler(all))), nil
}

// counted calls Answered with the status of each answer.
func (s *Server) counted(next http.Handler) http.Handler {
	if s.of.Answered == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := &noted{ResponseWriter: w, status: http.StatusOK}
		defer func() { s.of.Answered(to.status) }()
		next.ServeHTTP(to, r)
	})
}

// noted is an answer whose status is noted.
type noted struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (n *noted) WriteHeader(status int) {
	n.status = status
	n.ResponseWriter.WriteHeader(status)
}

// named refuses names under which no caller would ask. A page can bring a browser to take the page's own name for
// any address, and then read what is answered. It has no certificate for that name, and an address is not a name.
func (s *Server) named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = strings.Trim(r.Host, "[]")
		}
		if s.of.Anyone && r.TLS == nil && !s.of.known(host) {
			write(w, forbidden("host %s is no name of this port: ask an IP address, localhost or the host of "+
				"--advertise, or make callers known (--tls-ca, --tokens)", wording.Quote(host)))
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// known reports whether a host is an address or a name of this port.
func (o *Options) known(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || telemetry.Loopback(strings.ToLower(host)) ||
		slices.ContainsFunc(o.Names, func(name string) bool { return strings.EqualFold(name, host) })
}

// bounded wraps the body for admitted, and puts the caller's address and credentials into the context.
func (s *Server) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := &peer.Peer{Addr: address(r.RemoteAddr)}
		if r.TLS != nil {
			from.AuthInfo = credentials.TLSInfo{State: *r.TLS}
		}
		b := &limited{ReadCloser: r.Body, to: w, of: &s.of}
		defer b.giveBack()
		r.Body = b
		ctx := peer.NewContext(context.WithValue(r.Context(), requestKey{}, r), from)
		ctx = metadata.NewIncomingContext(ctx, metadata.MD{"authorization": r.Header.Values("Authorization")})
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// admitted asks who may call a method, and bounds the body. The gateway has found the method by then, and has
// not read the body; its only answer is metadata, so a refusal is what reading the body returns.
func (s *Server) admitted(ctx context.Context, r *http.Request) metadata.MD {
	method, known := runtime.RPCMethod(ctx)
	b, is := r.Body.(*limited)
	if !is || !known {
		return nil
	}
	bounds := s.of.Bounds(method)
	b.method, b.entries = method, jsonCounter{most: bounds.Entries}
	b.ReadCloser = http.MaxBytesReader(b.to, b.ReadCloser, int64(bounds.Bytes))
	if s.of.Admit != nil {
		b.refused = s.of.Admit(ctx, method)
	}
	return nil
}

// requestKey is the key of the *http.Request in the context of a call.
type requestKey struct{}

// address is the address of a caller.
type address string

// Network implements net.Addr.
func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// limited is a body that notes that it was too large, and that is not read further if the call is refused. It
// counts what it reads: of PATCH the decoder gets a copy.
type limited struct {
	io.ReadCloser
	to      http.ResponseWriter
	of      *Options
	method  string
	entries jsonCounter
	held    int64 // room, bytes
	over    error
	refused error
}

// Read implements io.Reader.
func (l *limited) Read(b []byte) (int, error) {
	if err := cmp.Or(l.refused, l.over); err != nil {
		return 0, err
	}
	n, err := l.ReadCloser.Read(b)
	if over := (*http.MaxBytesError)(nil); errors.As(err, &over) {
		l.refuse(intake.ByLength, fmt.Errorf("the body is larger than %d bytes: send less at once", over.Limit))
		return n, err
	}
	if err := l.entries.add(b[:n]); err != nil {
		l.refuse(intake.ByEntries, err)
		return 0, err
	}
	if room := copies * int64(n); l.of.Room != nil && n > 0 {
		if l.refused = l.of.Room.Take(l.method, room); l.refused != nil {
			return 0, l.refused
		}
		l.held += room
	}
	return n, err
}

// refuse notes that the body is too large.
func (l *limited) refuse(reason intake.Reason, why error) {
	l.over = why
	if l.of.Room != nil {
		l.of.Room.Refuse(reason, fmt.Errorf("%s: %w", l.method, why))
	}
}

// copies is the memory per byte of a body: the buffer for the body is copied when it grows.
const copies = 2

// giveBack gives back the room that the body has taken.
func (l *limited) giveBack() {
	if l.held > 0 {
		l.of.Room.Give(l.held)
	}
}

// body reads and writes JSON. Its errors say in which line of the body something is wrong.
type body struct{ runtime.JSONPb }

// Marshal implements runtime.Marshaler: one line, the same in each build.
func (b *body) Marshal(m any) ([]byte, error) {
	text, err := b.JSONPb.Marshal(m)
	if err != nil {
		return nil, err
	}
	return line(text)
}

// line is JSON without the spaces that protojson writes, or does not write, by the build.
func line(text []byte) ([]byte, error) {
	var out bytes.Buffer
	err := json.Compact(&out, text)
	out.WriteByte('\n')
	return out.Bytes(), err
}

// NewDecoder implements runtime.Marshaler.
func (b *body) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(into any) error {
		text, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(text)) == 0 {
			return io.EOF // no body
		}
		if err := wellFormed(text); err != nil {
			return err
		}
		if err := b.Unmarshal(text, into); err != nil {
			return explained(text, into, err)
		}
		return misgiven(text, into)
	})
}
