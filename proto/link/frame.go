package link

import (
	"encoding/binary"
	"fmt"
)

// MaxPayload is the longest payload of one frame, so that a frame is at most
// 1 MiB with its header.
const MaxPayload = 1<<20 - headerSize

const (
	headerSize = 8
	flagMore   = 1
)

type kind uint8

const (
	kindHello kind = iota + 1
	kindConfig
	kindShares
	kindSums
	kindClaims
	kindReport
	kindHeartbeat
	kindRefused
	kindNames
	kindSpent
	kindDelta
	kindDecisions     // if the agent's Hello says so
	kindTokenRequests // likewise
	kindTokenAnswers  // to a gateway that has sent TokenRequests
	kindSlotAsks      // if the agent's Hello says so
	kindSlotReplies   // to a gateway that has sent SlotAsks
	kindQuotaAsks     // if the agent's Hello says so
	kindQuotaReplies  // to a gateway that has sent QuotaAsks
)

var kindStrings = [...]string{"frame", "Hello", "Config", "Shares", "Sums", "Claims", "Report", "Heartbeat", "Refused",
	"Names", "Spent", "Delta", "Decisions", "TokenRequests", "TokenAnswers", "SlotAsks", "SlotReplies",
	"QuotaAsks", "QuotaReplies"}

func (k kind) String() string {
	if int(k) < len(kindStrings) {
		return kindStrings[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// MaxMessage bounds one whole message in bytes, over all its frames. It is 128 MiB for a
// Config or a Delta (10⁵ tenants with three quotas each take about 40, 10⁶ overrides 43). It is 4 KiB for
// Hello and Heartbeat, 16 KiB for Names, 256 KiB for Refused, 16 MiB for the others.
// Of Sums and Claims there may be several messages, see MaxRecords.
func MaxMessage(m Message) int { return maxMessage(kindOf(m)) }

// MaxRecords is the most flows and keys of one Sums or Claims, about 1 MB: a sender of more cuts them
// (exchange.Sums.Parts, exchange.Claims.Parts). Writer keeps the memory of a message of that size for the next one.
const MaxRecords = 1 << 14

// MaxTokens is the most bytes of one TokenRequests, TokenAnswers, SlotAsks, SlotReplies, QuotaAsks or QuotaReplies. So
// no message holds up the others for long: a sender of more cuts them (exchange.TokenRequests.Parts).
const MaxTokens = 16 << 10

func maxMessage(k kind) int {
	switch k {
	case kindHello, kindHeartbeat:
		return 4 << 10
	case kindNames:
		return 16 << 10
	case kindRefused:
		return 256 << 10
	case kindConfig, kindDelta:
		return 128 << 20
	case kindShares, kindSums, kindClaims, kindReport, kindSpent, kindDecisions, kindTokenRequests, kindTokenAnswers,
		kindSlotAsks, kindSlotReplies, kindQuotaAsks, kindQuotaReplies:
		return 16 << 20
	}
	return 0
}

// MaxFromFilter bounds one whole message that a filter sends its agent, in bytes; 0: a filter sends no such message
// after its Hello. Each bound is what the longest honest message needs, and some more:
//
//	Claims         2 MiB    MaxRecords of them
//	Report        16 MiB    100,000 flows with counts
//	Decisions      2 MiB    128 with 17 limits each, their texts cut to 128 bytes
//	Spent          1 MiB    55,000 keys; a filter sends 4,096 at a time
//	TokenRequests  32 KiB   MaxTokens, and one more of them with a long name
//	SlotAsks       32 KiB   likewise
//	QuotaAsks      32 KiB   likewise
//	the others     as MaxMessage
func MaxFromFilter(m Message) int { return maxFromFilter(kindOf(m)) }

func maxFromFilter(k kind) int {
	switch k {
	case kindClaims, kindDecisions:
		return 2 << 20
	case kindSpent:
		return 1 << 20
	case kindTokenRequests, kindSlotAsks, kindQuotaAsks:
		return 2 * MaxTokens
	case kindReport, kindHeartbeat, kindRefused, kindNames:
		return maxMessage(k)
	}
	return 0
}

// FormatError is the reason why bytes that came in cannot be read. Close the connection
// after it: nothing that follows can be read either.
type FormatError struct {
	// Message is the kind of message, "frame" for the header.
	Message string
	// Field is the field that could not be read, "" for the whole.
	Field string
	// Offset in the message's payload.
	Offset int
	// Reason says what was found and what would be right.
	Reason string
}

// Error names message, field, offset and reason.
func (e *FormatError) Error() string {
	where := e.Message
	if e.Field != "" {
		where += "." + e.Field
	}
	return fmt.Sprintf("link: malformed %s at byte %d: %s", where, e.Offset, e.Reason)
}

// header is a frame's first eight bytes, taken apart.
type header struct {
	length  int
	version uint8
	kind    kind
	more    bool
}

func (h header) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(h.length))
	flags := byte(0)
	if h.more {
		flags = flagMore
	}
	return append(b, h.version, byte(h.kind), flags, 0)
}

func parseHeader(b [headerSize]byte, oldest, newest uint8) (header, error) {
	h := header{
		length:  int(binary.LittleEndian.Uint32(b[:])),
		version: b[4],
		kind:    kind(b[5]),
		more:    b[6]&flagMore != 0,
	}
	bad := func(field string, offset int, format string, args ...any) (header, error) {
		return h, &FormatError{Message: "frame", Field: field, Offset: offset, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case h.version < oldest || h.version > newest:
		return bad("version", 4, "is %d, this build reads %d to %d", h.version, oldest, newest)
	case maxMessage(h.kind) == 0:
		return bad("kind", 5, "%d is unknown", b[5])
	case b[6]&^flagMore != 0 || b[7] != 0:
		return bad("flags", 6, "%#x %#x has unknown bits set", b[6], b[7])
	case h.length > MaxPayload:
		return bad("length", 0, "is %d, at most %d is allowed", h.length, MaxPayload)
	case h.more && h.length == 0:
		return bad("length", 0, "is 0 in a frame that is not the last of its message")
	}
	return h, nil
}
