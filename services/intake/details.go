package intake

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// DetailsKey is the metadata by which a call asks for a longer status than defaultStatus: bytes of its trailers.
const DetailsKey = "titrate-max-details"

const (
	// defaultStatus leaves room for other trailers in 8 KiB. grpc-java and gRPC's core in C take no more of
	// them by default, and report RESOURCE_EXHAUSTED instead of the status.
	defaultStatus = 6 << 10
	// mostStatus is below the 16 MiB of gRPC for Go.
	mostStatus = 12 << 20
	// perDetail is the encoding around a detail, or around a violation in one, bytes.
	perDetail = 8
	// sentence bounds the bytes that fitted adds to a message, plain and in base64, with the encoding of a BadRequest.
	sentence = 400
)

// statusBytes returns how many bytes of trailers the status of a call may take.
func statusBytes(ctx context.Context) int {
	asked := metadata.ValueFromIncomingContext(ctx, DetailsKey)
	if len(asked) == 0 {
		return defaultStatus
	}
	n, err := strconv.Atoi(asked[0])
	if err != nil {
		return defaultStatus
	}
	return min(max(n, defaultStatus), mostStatus)
}

// fitted returns the error of a call such that its status fits into the trailers. The message of a status
// whose details do not all fit says so.
func fitted(ctx context.Context, err error) error {
	s, is := status.FromError(err)
	most := statusBytes(ctx)
	if err == nil || !is || inTrailers(s.Proto()) <= most {
		return err
	}
	p := s.Proto()
	all := p.GetDetails()
	p.Details, p.Message = nil, cut(p.GetMessage(), most/8)
	f := fitting{left: (most-inTrailers(p))*3/4 - len(p.GetMessage()) - sentence}
	for _, d := range all {
		f.add(d)
	}
	p.Details = f.details
	if f.kept < f.all {
		p.Message += fmt.Sprintf(" (the details name %d of %d; a call with the metadata %s: %d gets more)", f.kept,
			f.all, DetailsKey, mostStatus)
	}
	return status.ErrorProto(p)
}

// inTrailers returns how many bytes of trailers a status takes: its message with %XX for special bytes, and
// all of it in base64.
func inTrailers(p *spb.Status) int {
	n := len(p.GetMessage())
	for _, c := range []byte(p.GetMessage()) {
		if c < ' ' || c > '~' || c == '%' {
			n += 2
		}
	}
	if len(p.GetDetails()) > 0 {
		n += (proto.Size(p)*4 + 2) / 3
	}
	return n
}

// cut returns the beginning of a text that is too long.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " …"
}

// fitting are the first details for which there is room.
type fitting struct {
	details   []*anypb.Any
	left      int // bytes
	kept, all int // details, and violations in them
}

func (f *fitting) add(d *anypb.Any) {
	var bad errdetails.BadRequest
	if d.UnmarshalTo(&bad) != nil {
		f.all++
		if f.take(proto.Size(d)) {
			f.kept++
			f.details = append(f.details, d)
		}
		return
	}
	all, n := bad.GetFieldViolations(), 0
	for n < len(all) && f.take(proto.Size(all[n])) {
		n++
	}
	bad.FieldViolations = all[:n]
	f.all, f.kept = f.all+len(all), f.kept+n
	if packed, err := anypb.New(&bad); err == nil && n > 0 {
		f.details = append(f.details, packed)
	}
}

// take reports whether there is room for so many bytes and all before them.
func (f *fitting) take(bytes int) bool {
	f.left -= bytes + perDetail
	return f.left >= 0
}
