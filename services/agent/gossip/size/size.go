// Package size says how many bytes the messages of the gossip take, without encoding them.
// proto.Size says the same for any message, by reflection, and an agent of a large fleet asks
// for each of a million sums.
//
// Each function returns the length of the encoded message, without the tag and the length that
// it has inside of another one. Unknown fields are not counted: a message that is sent has none.
package size

import (
	"math"
	"math/bits"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"google.golang.org/protobuf/proto"
)

// Bytes with the tag of the field, which is one byte for the fields 1 to 15.
const (
	ofBool    = 2
	ofFixed32 = 5
	ofFixed64 = 9
)

// Sum is the size of a sum.
func Sum(m *gossipv1.Sum) int {
	return fixed64(m.GetKey()) + boolean(m.GetFlow()) + float(m.GetClaims()) + float(m.GetActive()) +
		float(m.GetUnsaturated()) + double(m.GetAdmitted()) + float(m.GetSpent()) + varint(uint64(m.GetOthers())) +
		varint(uint64(m.GetEpoch())) + boolean(m.GetAsk()) + float(m.GetOwn()) + float(m.GetGap()) +
		double(m.GetAssumed()) + boolean(m.GetAbroad()) + float(m.GetFall()) + second(float(m.GetRefill()))
}

// KeyClaim is the size of a claim on a key.
func KeyClaim(m *gossipv1.KeyClaim) int {
	return fixed64(m.GetKey()) + float(m.GetClaim()) + float(m.GetActive()) + double(m.GetAdmitted()) +
		float(m.GetSpent()) + boolean(m.GetLeft()) + boolean(m.GetAsk()) + boolean(m.GetKnown()) +
		float(m.GetOwn()) + float(m.GetUnsaturated()) + boolean(m.GetSum())
}

// FlowClaim is the size of a claim on a flow.
func FlowClaim(m *gossipv1.FlowClaim) int {
	return fixed64(m.GetKey()) + float(m.GetClaim()) + float(m.GetActive()) + boolean(m.GetLeft()) +
		boolean(m.GetAsk()) + float(m.GetUnsaturated()) + boolean(m.GetSum())
}

// Replica is the size of a gateway's state, with its claims.
func Replica(m *gossipv1.Replica) int {
	n := text(m.GetName()) + fixed64(m.GetGeneration()) + varint(m.GetSeq()) + double(m.GetWeight()) +
		boolean(m.GetDrained()) + fixed64(m.GetProcess()) + text(m.GetSite())
	for _, f := range m.GetFlows() {
		n += nested(FlowClaim(f))
	}
	for _, k := range m.GetKeys() {
		n += nested(KeyClaim(k))
	}
	return n
}

// Packet is the size of a packet.
func Packet(m *gossipv1.Packet) int {
	n := text(m.GetAgent()) + fixed64(m.GetIncarnation()) + varint(m.GetSeq()) + varint(uint64(m.GetPromiseMs())) +
		boolean(m.GetLeaving()) + varint(uint64(m.GetLateMs())) + boolean(m.GetResend()) +
		varint(uint64(m.GetNearness()))
	if a := m.GetAck(); a != nil {
		n += nested(fixed64(a.GetIncarnation()) + varint(a.GetSeq()) + varint(uint64(a.GetHeldUs())) +
			fixed64(a.GetEarlier()))
	}
	for _, r := range m.GetReplicas() {
		n += nested(Replica(r))
	}
	for _, s := range m.GetSums() {
		n += nested(Sum(s))
	}
	for _, s := range m.GetSites() {
		n += nested(Sum(s))
	}
	if t := m.GetTokens(); t != nil {
		n += nested(proto.Size(t))
	}
	return n
}

// nested is the size of a message of n bytes inside of another one.
func nested(n int) int { return 1 + length(uint64(n)) + n }

// length returns the length of a number as a varint: seven bits a byte.
func length(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// Fields that are zero are left out.

func varint(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + length(v)
}

func fixed64(v uint64) int {
	if v == 0 {
		return 0
	}
	return ofFixed64
}

func double(v float64) int { return fixed64(math.Float64bits(v)) }

func float(v float32) int {
	if math.Float32bits(v) == 0 {
		return 0
	}
	return ofFixed32
}

// second adds the second byte of the tag of a field from 16 on, if it is there.
func second(n int) int {
	if n == 0 {
		return 0
	}
	return n + 1
}

func boolean(v bool) int {
	if v {
		return ofBool
	}
	return 0
}

func text(s string) int {
	if s == "" {
		return 0
	}
	return nested(len(s))
}
