package intake

import (
	"encoding/binary"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// wire are methods of gRPC's transport streams that gRPC's interface does not promise. They are used because
// RecvMsg of gRPC has one bound of length for all methods of a server. TestALongMessageIsRefusedByItsLength fails
// if an upgrade of gRPC takes these methods away. WriteStatus ends the stream, also while it is read.
type wire interface {
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
	WriteStatus(s *status.Status) error
}

// incoming is a stream whose messages are bounded.
type incoming struct {
	grpc.ServerStream
	i      *Intake
	method string
	bounds Bounds
	held   int64 // room, bytes
}

// unary reports whether the stream is one message and its answer.
func (s *incoming) unary() bool { return s.i.unary[s.method] }

// RecvMsg implements grpc.ServerStream: it refuses a message beyond the bounds before decoding it.
func (s *incoming) RecvMsg(into any) error {
	from, is := grpc.ServerTransportStreamFromContext(s.Context()).(wire)
	m, isMessage := into.(proto.Message)
	if !is || !isMessage {
		return status.Errorf(codes.Internal, "%s: messages of this kind cannot be bounded", s.method)
	}
	if !s.unary() {
		defer s.giveBack()
	}
	data, err := s.receive(from)
	switch {
	case errors.Is(err, io.EOF) && s.unary():
		return status.Errorf(codes.Internal, "%s: the call ended before its message", s.method)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return status.Errorf(codes.Internal, "%s: the call ended within a message", s.method)
	case err != nil:
		return err
	}
	defer data.Free()
	return s.decode(data.ReadOnlyData(), m)
}

// receive returns the bytes of the next message, io.EOF if there is none. A long message takes room.
func (s *incoming) receive(from wire) (data mem.Buffer, err error) {
	if s.unary() {
		defer s.limit(from, &err)()
	}
	length, err := s.length(from)
	if err != nil {
		return nil, err
	}
	if length > window {
		if err := s.takeRoom(int64(length)); err != nil {
			return nil, err
		}
		if !s.unary() {
			defer s.limit(from, &err)()
		}
	}
	parts, err := from.Read(length)
	if err != nil {
		return nil, err
	}
	defer parts.Free()
	return parts.MaterializeToBuffer(mem.DefaultBufferPool()), nil
}

// length returns the length of the next message, if it is within the bound.
func (s *incoming) length(from wire) (int, error) {
	var header [5]byte
	if err := from.ReadMessageHeader(header[:]); err != nil {
		return 0, err
	}
	length := binary.BigEndian.Uint32(header[1:])
	switch {
	case header[0] != 0:
		return 0, s.refuse(ByCompression, codes.Unimplemented, "the message is compressed: send it as it is")
	case uint64(length) > uint64(s.bounds.Bytes):
		return 0, s.refuse(ByLength, codes.ResourceExhausted, "the message has %d bytes: want at most %d", length,
			s.bounds.Bytes)
	}
	return int(length), nil
}

// decode reads a message from bytes that make no more than the bound.
func (s *incoming) decode(data []byte, m proto.Message) error {
	err := count(data, m.ProtoReflect().Descriptor(), s.bounds.Entries)
	switch {
	case errors.Is(err, errTooMany):
		return s.refuse(ByEntries, codes.ResourceExhausted,
			"the message has more than %d entries (messages, elements of lists): send it in parts", s.bounds.Entries)
	case err == nil:
		err = s.i.of.Unmarshal(data, m)
	}
	if err != nil {
		return s.refuse(ByForm, codes.InvalidArgument, "the message cannot be read as %s: %v",
			m.ProtoReflect().Descriptor().FullName(), err)
	}
	return nil
}

// refuse notes a message that is refused, and returns its status.
func (s *incoming) refuse(reason Reason, code codes.Code, format string, args ...any) error {
	err := status.Errorf(code, s.method+": "+format, args...)
	s.i.Refuse(reason, err)
	return err
}
