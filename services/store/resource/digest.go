package resource

import (
	"crypto/sha256"
	"encoding/binary"

	"google.golang.org/protobuf/proto"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// Digest names a set of resources by what is in it: equal sets have equal digests, in whatever order and by whatever
// changes they were made. Two different sets have the same one by a chance of 2⁻⁶⁴. It is the sum of the digests of the
// resources, each the first 8 bytes of the SHA-256 of its encoding, modulo 2⁶⁴. The empty set has 0.
//
// Encodings may differ between releases of the protobuf library. Equal sets then have different
// digests, which costs the side that compares them a message that was not needed.
type Digest uint64

// Replace returns the digest of the set in which now took the place of before. Either may be nil: a resource came, or
// went.
func (d Digest) Replace(before, now *quotav1.Resource) Digest {
	return d.ReplaceEncoded(Encode(before), Encode(now))
}

// ReplaceEncoded is Replace of resources that Encode has encoded; empty is none.
func (d Digest) ReplaceEncoded(before, now []byte) Digest {
	return d - digest(before) + digest(now)
}

// Encode is the encoding of which a digest is made, nil for nil.
func Encode(r *quotav1.Resource) []byte {
	if r == nil {
		return nil
	}
	// What was stored, or came over the network, can be encoded.
	b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	return b
}

func digest(encoded []byte) Digest {
	if len(encoded) == 0 {
		return 0
	}
	sum := sha256.Sum256(encoded)
	return Digest(binary.LittleEndian.Uint64(sum[:]))
}
