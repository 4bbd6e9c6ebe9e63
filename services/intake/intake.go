// Package intake reads the messages of callers on a gRPC server, and bounds what a caller can make
// the server do before anybody has looked at the call.
//
// # Model
//
//	HTTP/2 stream ──► Admit (headers, certificate) ──► length ──► bytes ──► entries ──► decode ──► handler
//
// gRPC reads and decodes the message of a unary call before the first interceptor runs, with one bound of length for
// all methods. A message of two bytes per element becomes a hundred times its size in memory, and gzip makes the
// message itself a thousand times smaller. So this package registers each unary method as a stream. On the wire both
// are the same; on the server the handler of a stream is called before a byte of the message is read.
//
// # Invariants
//
//   - A call that Admit refuses has no byte of its message read beyond the window of its stream, 64 KiB. The
//     window does not grow: gRPC's estimate of the network could raise it to 16 MiB.
//   - A message longer than its method's bound is refused by its length, before its bytes are read.
//   - A compressed message is refused, by the flag before its length.
//   - Messages longer than a window take room before they are read. It is Options.Room over all calls, until
//     their handlers return; and as much again over all streams, until they are decoded. A call without room
//     is refused, a stream waits.
//   - A message that is not there after a minute is refused. The minute of a stream's message begins with its
//     length.
//   - A message is decoded only if it makes no more entries (messages, elements of lists and maps)
//     than its method's bound. They are counted on its bytes, in their length and without memory.
//   - What is refused before its call is handled is counted, logged once a minute for each reason, and an alarm.
//   - The status of a call fits into 8 KiB of trailers, unless the call asks for more (DetailsKey).
//   - A panic in a handler ends its call with INTERNAL. The panic is counted, and logged with its stack.
package intake

import (
	"cmp"
	"context"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Bounds limit one message of a method.
type Bounds struct {
	Bytes   int // of the encoded message
	Entries int // messages, and elements of lists and maps, in it
}

const (
	// maxCalls is the most calls of one connection at a time. More lets a caller hold more memory: each has a window.
	maxCalls = 256
	// window bounds the bytes of a stream that are taken before somebody reads them, and connWindow the bytes of a
	// connection on their way. Reading a long message opens the window of its stream.
	window, connWindow = 64 << 10, 1 << 20
	// readTime bounds how long a message may take to arrive: 64 MiB at 9 Mbit/s.
	readTime = time.Minute
	// defaultRoom is four of the longest messages.
	defaultRoom = 256 << 20
	// maxHeaders bounds the headers of a call, bytes. A token and a trace have room.
	maxHeaders = 64 << 10
)

// Options are fixed for an Intake's life.
type Options struct {
	// Admit is asked before a byte of a message is read; nil = every call is let in. An error is the
	// status of the call.
	Admit func(ctx context.Context, method string) error
	// Bounds returns the bounds of a method, such as /titrate.quota.v1alpha1.QuotaService/GetPool.
	Bounds func(method string) Bounds
	// Unary and Stream are the interceptors of each call, the first one outermost.
	Unary  []grpc.UnaryServerInterceptor
	Stream []grpc.StreamServerInterceptor
	// Unmarshal decodes the bytes of a message within its bounds; nil = proto.Unmarshal.
	Unmarshal func(data []byte, into proto.Message) error
	Log       *slog.Logger
	// Room bounds the bytes of the messages that are read and handled at a time; 0 = 256 MiB.
	Room int
}

// Intake counts what it refuses. Safe for concurrent use.
type Intake struct {
	of      Options
	unary   map[string]bool // the methods that were made streams of
	refused refusals
	panics  atomic.Uint64

	calls, streams *semaphore.Weighted // room, bytes
}

// New returns an intake for any number of servers. Services are registered before the first one serves.
func New(of Options) *Intake {
	room := int64(cmp.Or(of.Room, defaultRoom))
	if of.Unmarshal == nil {
		of.Unmarshal = proto.Unmarshal
	}
	i := &Intake{of: of, unary: map[string]bool{}, calls: semaphore.NewWeighted(room),
		streams: semaphore.NewWeighted(room)}
	for reason := range i.refused.logged {
		i.refused.logged[reason].Interval = logEvery
	}
	return i
}

// Panics returns the number of recovered panics of handlers.
func (i *Intake) Panics() uint64 { return i.panics.Load() }

// ServerOptions returns the options of a gRPC server whose services are registered with Registrar.
func (i *Intake) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.MaxConcurrentStreams(maxCalls), grpc.MaxHeaderListSize(maxHeaders),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(connWindow), grpc.StreamInterceptor(i.stream),
		grpc.UnknownServiceHandler(i.unknown)}
}

// stream intercepts each call on a gRPC server: it bounds the messages and the status, and recovers a panic.
func (i *Intake) stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo,
	next grpc.StreamHandler) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = i.recovered(info.FullMethod, fault)
		}
		err = fitted(s.Context(), err)
	}()
	in := &incoming{ServerStream: s, i: i, method: info.FullMethod, bounds: i.of.Bounds(info.FullMethod)}
	if i.of.Admit != nil && srv != nil { // nil: there is no such method, and nothing to admit to
		if err := i.of.Admit(s.Context(), info.FullMethod); err != nil {
			return err
		}
	}
	if !in.unary() {
		for _, one := range slices.Backward(i.of.Stream) {
			inner := next
			next = func(srv any, s grpc.ServerStream) error { return one(srv, s, info, inner) }
		}
	}
	return next(srv, in)
}

// Recover answers a call over HTTP whose handler panics.
func (i *Intake) Recover(ctx context.Context, r any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (answer any,
	err error) {
	defer func() {
		if fault := recover(); fault != nil {
			answer, err = nil, i.recovered(info.FullMethod, fault)
		}
	}()
	return next(ctx, r)
}

// recovered counts and logs a panic, and returns the status of its call.
func (i *Intake) recovered(method string, fault any) error {
	i.panics.Add(1)
	i.of.Log.Error("a handler panicked: its call fails, others go on; please report this", "method", method, "panic",
		fault, "stack", string(debug.Stack()))
	return status.Errorf(codes.Internal, "%s failed by a fault of this server, which is in its log", method)
}
