package rls

import (
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	api "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// unmarshal decodes a message as proto.Unmarshal does, but a request may have any bytes in its texts. A header of
// an HTTP request may be any bytes, and Envoy sends it as it is. proto.Unmarshal refuses the whole request then,
// and Envoy would let it pass, whatever its other descriptors say.
func unmarshal(data []byte, into proto.Message) error {
	err := proto.Unmarshal(data, into)
	r, is := into.(*api.RateLimitRequest)
	if err == nil || !is {
		return err
	}
	proto.Reset(r)
	if readRequest(data, r) != nil {
		return err
	}
	return nil
}

// readRequest decodes a request whose texts are any bytes.
func readRequest(data []byte, r *api.RateLimitRequest) error {
	return eachField(data, func(f field) error {
		switch {
		case f.is(1, protowire.BytesType):
			r.Domain = string(f.bytes)
		case f.is(2, protowire.BytesType):
			d := &ratelimitv3.RateLimitDescriptor{}
			r.Descriptors = append(r.Descriptors, d)
			return readDescriptor(f.bytes, d)
		case f.is(3, protowire.VarintType):
			r.HitsAddend = uint32(f.number)
		}
		return nil
	})
}

func readDescriptor(data []byte, d *ratelimitv3.RateLimitDescriptor) error {
	merge := proto.UnmarshalOptions{Merge: true} // as of a field that comes twice
	return eachField(data, func(f field) error {
		switch {
		case f.is(1, protowire.BytesType):
			e := &ratelimitv3.RateLimitDescriptor_Entry{}
			d.Entries = append(d.Entries, e)
			return readEntry(f.bytes, e)
		case f.is(2, protowire.BytesType):
			if d.Limit == nil {
				d.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{}
			}
			return merge.Unmarshal(f.bytes, d.Limit)
		case f.is(3, protowire.BytesType):
			if d.HitsAddend == nil {
				d.HitsAddend = &wrapperspb.UInt64Value{}
			}
			return merge.Unmarshal(f.bytes, d.HitsAddend)
		case f.is(4, protowire.VarintType):
			d.IsNegativeHits = f.number != 0
		}
		return nil
	})
}

func readEntry(data []byte, e *ratelimitv3.RateLimitDescriptor_Entry) error {
	return eachField(data, func(f field) error {
		switch {
		case f.is(1, protowire.BytesType):
			e.Key = string(f.bytes)
		case f.is(2, protowire.BytesType):
			e.Value = string(f.bytes)
		}
		return nil
	})
}

// field is a field of a message on the wire.
type field struct {
	tag    protowire.Number
	kind   protowire.Type
	bytes  []byte // of BytesType
	number uint64 // of VarintType
}

func (f field) is(tag protowire.Number, kind protowire.Type) bool {
	return f.tag == tag && f.kind == kind
}

// eachField calls take with the fields of a message.
func eachField(data []byte, take func(field) error) error {
	for len(data) > 0 {
		var f field
		var n int
		if f.tag, f.kind, n = protowire.ConsumeTag(data); n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(f.tag, f.kind, data); n < 0 {
			return protowire.ParseError(n)
		}
		switch f.kind {
		case protowire.BytesType:
			f.bytes, _ = protowire.ConsumeBytes(data)
		case protowire.VarintType:
			f.number, _ = protowire.ConsumeVarint(data)
		}
		if err := take(f); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}
