package gate

import (
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/titrate/titrate/control/limiter"
)

// longestTenant bounds the tenant's name in an answer's body, in bytes.
const longestTenant = 128

// Refused is the status of a refusal unless an operator wants another.
const Refused = http.StatusTooManyRequests

// Status is the HTTP status of a refusal unless an operator wants another: 429; 403
// for a tenant that is unknown, which no waiting helps; 503 where nothing was limited
// but no decision could be had.
func Status(r limiter.Reason) int {
	switch r {
	case limiter.NotConfigured, InternalError:
		return http.StatusServiceUnavailable
	case limiter.UnknownTenant:
		return http.StatusForbidden
	}
	return http.StatusTooManyRequests
}

// The status of a refusal in gRPC.
const (
	grpcPermissionDenied  = 7
	grpcResourceExhausted = 8
	grpcUnavailable       = 14
)

// GRPCStatus is the grpc-status of a refusal.
func GRPCStatus(r limiter.Reason) int {
	switch Status(r) {
	case http.StatusForbidden:
		return grpcPermissionDenied
	case http.StatusServiceUnavailable:
		return grpcUnavailable
	}
	return grpcResourceExhausted
}

// RetrySeconds is a wait in the form of Retry-After (RFC 9110 §10.2.3): whole
// seconds, rounded up, at least 1.
func RetrySeconds(d time.Duration) int64 {
	return max(1, int64((d+time.Second-1)/time.Second))
}

// AppendRetryAfter appends the value of Retry-After, counted from now; nothing
// where waiting does not help. A configuration that is not there yet is expected
// within a second.
func AppendRetryAfter(b []byte, out limiter.Outcome) []byte {
	switch {
	case out.RetryAfter > 0:
		return strconv.AppendInt(b, RetrySeconds(out.RetryAfter), 10)
	case out.Reason == limiter.NotConfigured:
		return append(b, '1')
	}
	return b
}

// AppendBody appends the JSON body of a refusal to b. The tenant is what the
// client sent: it is cut to 128 bytes and escaped.
func AppendBody(b []byte, tenant string, r limiter.Reason) []byte {
	what := "rate limited"
	switch Status(r) {
	case http.StatusForbidden:
		what = "unknown tenant"
	case http.StatusServiceUnavailable:
		what = "unavailable"
	}
	b = append(b, `{"error":"`...)
	b = append(b, what...)
	b = append(b, `","reason":"`...)
	b = append(b, ReasonName(r)...)
	b = append(b, `","tenant":`...)
	b = appendQuoted(b, tenant)
	return append(b, '}', '\n')
}

// appendQuoted is a JSON string of at most longestTenant bytes of s, without
// allocating; what is not UTF-8 becomes U+FFFD.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s) && i < longestTenant; {
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
