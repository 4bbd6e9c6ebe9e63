// Package answer writes the parts of a decision that a client reads. They are status, body and headers of a
// refusal in HTTP and in gRPC, the RateLimit fields, and the body of a peek.
//
// All functions append to memory of the caller and allocate nothing. Texts that the client has sent (a tenant's
// name) are cut to a bound and escaped.
//
// The functions know nothing of Envoy; package shim decides which of the texts a
// request gets.
package answer

import (
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/titrate/titrate/control/limiter"
)

// InternalError is the reason of a request that was refused because its decision
// panicked and the failure policy is to refuse.
const InternalError = limiter.Reason(200)

// ReasonName is the stable name of a reason, InternalError included.
func ReasonName(r limiter.Reason) string {
	if r == InternalError {
		return "internal_error"
	}
	return r.String()
}

// byCause picks the value for a cause of refusals: the request was over a limit or a share, its tenant is not
// configured, or there was no decision.
func byCause[T any](r limiter.Reason, limited, unknownTenant, unavailable T) T {
	switch r {
	case limiter.NotConfigured, InternalError:
		return unavailable
	case limiter.UnknownTenant:
		return unknownTenant
	}
	return limited
}

// Status returns the HTTP status of a refusal. limited and unknownTenant are the operator's settings; without a
// decision the status is 503.
func Status(r limiter.Reason, limited, unknownTenant int) int {
	return byCause(r, limited, unknownTenant, http.StatusServiceUnavailable)
}

// The statuses of refusals in gRPC.
const (
	grpcPermissionDenied  = 7
	grpcResourceExhausted = 8
	grpcUnavailable       = 14
)

// GRPCStatus is the grpc-status of a refusal.
func GRPCStatus(r limiter.Reason) int {
	return byCause(r, grpcResourceExhausted, grpcPermissionDenied, grpcUnavailable)
}

// Summary is a refusal in a few words, at most 16 bytes.
func Summary(r limiter.Reason) string {
	return byCause(r, "rate limited", "unknown tenant", "unavailable")
}

// RetrySeconds is a wait in the form of Retry-After (RFC 9110 §10.2.3): whole
// seconds, rounded up, at least 1.
func RetrySeconds(d time.Duration) int64 {
	return max(1, int64((d+time.Second-1)/time.Second))
}

// AppendRetryAfter appends the value of Retry-After, counted from now; nothing
// where waiting does not help. A missing configuration is expected to arrive within
// a second.
func AppendRetryAfter(b []byte, out limiter.Outcome) []byte {
	switch {
	case out.RetryAfter > 0:
		return strconv.AppendInt(b, RetrySeconds(out.RetryAfter), 10)
	case out.Reason == limiter.NotConfigured:
		return append(b, '1')
	}
	return b
}

// AppendBody appends the JSON body of a refusal to b. The client sent the tenant; Envoy or the client set the
// request's ID, "" for none. Both are cut and escaped.
func AppendBody(b []byte, tenant, request string, r limiter.Reason) []byte {
	b = append(b, `{"error":"`...)
	b = append(b, Summary(r)...)
	b = append(b, `","reason":"`...)
	b = append(b, ReasonName(r)...)
	b = append(b, `","tenant":`...)
	b = appendQuoted(b, tenant)
	if request != "" {
		b = append(b, `,"request":`...)
		b = appendQuoted(b, request[:min(len(request), longestRequest)])
	}
	return append(b, '}', '\n')
}

const (
	// longestTenant bounds the tenant's name in an answer's body, in bytes.
	longestTenant = 128
	// longestRequest bounds the request's ID there, in bytes. Envoy's have 36.
	longestRequest = 64
)

// appendQuoted appends at most longestTenant bytes of s as a JSON string, without
// allocating; bytes that are not UTF-8 become U+FFFD.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	i := plain(s, longestTenant)
	b = append(b, s[:i]...)
	for i < len(s) && i < longestTenant {
		c, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c < 0x20 || c == 0x7f || c == '\u2028' || c == '\u2029' || c == '<' || c == '>' || c == '&':
			b = append(b, '\\', 'u')
			hex := strconv.AppendUint(make([]byte, 0, 4), uint64(c), 16)
			b = append(b, "0000"[len(hex):]...)
			b = append(b, hex...)
		default:
			b = utf8.AppendRune(b, c)
		}
		i += size
	}
	return append(b, '"')
}

// plainBytes need no escape in JSON, in HTML, or in a string of a structured field.
var plainBytes = func() (is [256]bool) {
	for c := byte(' '); c <= '~'; c++ {
		is[c] = c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
	}
	return is
}()

// plain returns how many of the first bytes of s, at most longest, are plain: mostly all, which are then
// appended at once.
func plain(s string, longest int) int {
	longest = min(longest, len(s))
	for i := range longest {
		if !plainBytes[s[i]] {
			return i
		}
	}
	return longest
}
