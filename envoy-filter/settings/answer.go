package settings

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/titrate/titrate/control/config"
)

// Body is the form of a refusal's body.
type Body uint8

// The forms.
const (
	BodyAuto Body = iota + 1 // by request: gRPC, plain text if it asks for that, else JSON
	BodyJSON
	BodyText
	BodyGRPC // a trailers-only answer without body
	BodyNone // no body
)

// When selects the answers that have a field.
type When uint8

// The choices.
const (
	WhenNever  When = iota + 1
	WhenEvents      // answers to requests that were not plainly admitted
	WhenAlways
)

// LogTo selects the place where an access log finds the outcome.
type LogTo uint8

// The places.
const (
	LogToMetadata    LogTo = iota + 1 // dynamic metadata, a key for each value
	LogToFilterState                  // filter state, one text
)

// LogClient selects how an access log names clients.
type LogClient uint8

// The choices.
const (
	LogClientNone LogClient = iota + 1
	LogClientHash           // 16 hexadecimal digits: of SipHash under a key, or of SHA-256
	LogClientName
)

// HeaderName is a header's name in lower case; nil: unset; "": none.
type HeaderName *string

// Answers selects the parts of a decision that clients, upstreams and access logs see. Zero values and nil are
// unset: an override then has the filter's value, and the filter the default (SetDefaults).
type Answers struct {
	// Mode of the decision: ENFORCE, SHADOW (decides, counts and logs, never acts)
	// or OFF (measures only). Nil is unset, ENFORCE the default.
	Mode *config.Mode
	// Status of a refusal, 400 to 599, default 429. A request that could not be decided
	// gets 503 in any case.
	Status int
	// Body of a refusal, default AUTO.
	Body Body
	// RateLimit selects the answers that have the RateLimit and RateLimit-Policy fields; default WhenEvents:
	// refusals.
	RateLimit When
	// RateLimitPolicy adds RateLimit-Policy to these fields. Default true.
	RateLimitPolicy *bool
	// Names of headers: Reason for a refusal's reason, RequestID for the refused request's ID, Wait for the
	// milliseconds that a request was held, Congestion for a mark. Defaults x-titrate-reason, x-request-id,
	// x-titrate-wait-ms, x-titrate-congestion.
	Reason, RequestID, Wait, Congestion HeaderName
	// Limited is the header, with the value true, of a refusal by a limit or a share, which
	// keeps an Envoy in front from retrying it. Default x-envoy-ratelimited.
	Limited HeaderName
	// MarkUpstream sets the mark on the request, too. Default false.
	MarkUpstream *bool
	// Peek is a header: the answer to a request with this header has the rest of the limit, and the request is
	// not counted. Default none.
	Peek HeaderName
	// Cost is the true cost in a response; default CostNowhere.
	Cost ResponseCost
	// Log selects the requests that set fields of access logs, default WhenEvents; LogTo the place of the
	// fields, default LogToMetadata; LogClient how they name the client, default LogClientHash.
	Log   When
	LogTo LogTo
	// LogKey is the key of hashes of clients; nil is unset: SHA-256 without a key.
	LogKey    *[2]uint64
	LogClient LogClient
}

var (
	modes  = byName(config.Modes())
	bodies = map[string]Body{"AUTO": BodyAuto, "JSON": BodyJSON, "TEXT": BodyText, "GRPC": BodyGRPC,
		"NONE": BodyNone}
	rateLimits = map[string]When{"OFF": WhenNever, "REJECTED": WhenEvents, "ALWAYS": WhenAlways}
	logs       = map[string]When{"OFF": WhenNever, "EVENTS": WhenEvents, "ALWAYS": WhenAlways}
	logTos     = map[string]LogTo{"METADATA": LogToMetadata, "FILTER_STATE": LogToFilterState}
	logClients = map[string]LogClient{"NONE": LogClientNone, "HASH": LogClientHash, "NAME": LogClientName}
)

// byName maps the names of values to them.
func byName[T fmt.Stringer](values []T) map[string]T {
	m := make(map[string]T, len(values))
	for _, v := range values {
		m[v.String()] = v
	}
	return m
}

// Bounds of the status of a refusal.
const (
	minStatus = 400
	maxStatus = 599
)

// read reads the fields for answers.
func (a *Answers) read(m map[string]json.RawMessage) error {
	for _, read := range []func() error{
		func() error {
			if _, ok := m["mode"]; ok {
				a.Mode = new(config.Mode)
			}
			return choice(m, "mode", "ENFORCE, SHADOW or OFF", modes, a.Mode)
		},
		func() error { return whole(m, "reject_status", minStatus, maxStatus, &a.Status) },
		func() error { return choice(m, "reject_body", "AUTO, JSON, TEXT, GRPC or NONE", bodies, &a.Body) },
		func() error {
			return choice(m, "rate_limit_headers", "OFF, REJECTED or ALWAYS", rateLimits, &a.RateLimit)
		},
		func() error { return toggle(m, "rate_limit_policy", &a.RateLimitPolicy) },
		func() error { return optionalHeader(m, "reason_header", &a.Reason) },
		func() error { return optionalHeader(m, "request_id_header", &a.RequestID) },
		func() error { return optionalHeader(m, "limited_header", &a.Limited) },
		func() error { return optionalHeader(m, "wait_header", &a.Wait) },
		func() error { return optionalHeader(m, "congestion_header", &a.Congestion) },
		func() error { return toggle(m, "mark_upstream", &a.MarkUpstream) },
		func() error { return a.readPeek(m) },
		func() error { return a.readCost(m) },
		func() error { return choice(m, "access_log", "OFF, EVENTS or ALWAYS", logs, &a.Log) },
		func() error { return choice(m, "access_log_to", "METADATA or FILTER_STATE", logTos, &a.LogTo) },
		func() error { return a.readLogKey(m) },
		func() error { return choice(m, "access_log_client", "NONE, HASH or NAME", logClients, &a.LogClient) },
	} {
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

// toggle reads a switch; nil is unset.
func toggle(m map[string]json.RawMessage, key string, to **bool) error {
	if _, ok := m[key]; ok {
		*to = new(bool)
	}
	return value(m, "", key, "true or false", *to)
}

// optionalHeader reads a header's name, or "" for none.
func optionalHeader(m map[string]json.RawMessage, key string, to *HeaderName) error {
	if _, ok := m[key]; !ok {
		return nil
	}
	var name string
	if err := value(m, "", key, `a header's name, or "" for none`, &name); err != nil {
		return err
	}
	if name != "" && !plainHeader(name) {
		return wrong(key, `is %q, which is not a header's name; "" switches it off`, name)
	}
	name = strings.ToLower(name)
	*to = &name
	return nil
}

// plainHeader accepts a header that a filter may set: no pseudo-header, and none that
// frames the message.
func plainHeader(name string) bool {
	framing := []string{"content-length", "content-type", "transfer-encoding", "connection", "host", "upgrade", "te"}
	return headerName(name) && name[0] != ':' && !slices.Contains(framing, strings.ToLower(name))
}

func (a *Answers) readPeek(m map[string]json.RawMessage) error {
	raw, ok := m["peek"]
	if !ok {
		return nil
	}
	none := ""
	if a.Peek = &none; off(raw) {
		return nil
	}
	fields, err := object("peek", raw, "header")
	if err != nil {
		return err
	}
	name, err := headerIn(fields, "peek", "header")
	a.Peek = &name
	return err
}

func (a *Answers) readCost(m map[string]json.RawMessage) (err error) {
	const field = "response_cost"
	if raw, ok := m[field]; ok {
		a.Cost, err = responseCost(field, raw)
	}
	return err
}

// shortestKey is the shortest text of a key, bytes: a shorter one could be found by trying.
const shortestKey = 16

// readLogKey reads a text of any length, of which the key is the beginning of its SHA-256.
func (a *Answers) readLogKey(m map[string]json.RawMessage) error {
	const field = "access_log_key"
	if _, ok := m[field]; !ok {
		return nil
	}
	var text string
	if err := value(m, "", field, "a string", &text); err != nil {
		return err
	}
	if len(text) < shortestKey {
		return wrong(field, "has %d bytes; a key needs %d or more, such as `openssl rand -hex 16` prints",
			len(text), shortestKey)
	}
	sum := sha256.Sum256([]byte(text))
	a.LogKey = &[2]uint64{binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])}
	return nil
}

// headerIn reads a header's name that must be there.
func headerIn(m map[string]json.RawMessage, parent, key string) (string, error) {
	var name string
	if err := value(m, parent, key, "a header's name", &name); err != nil {
		return "", err
	}
	if !headerName(name) || name[0] == ':' {
		return "", wrong(join(parent, key), "is %q, which is not a header's name", name)
	}
	return strings.ToLower(name), nil
}

// off reports whether an override switches off a field of the filter.
func off(raw []byte) bool { return string(raw) == "false" }

// SetDefaults sets unset fields to their defaults.
func (a *Answers) SetDefaults() {
	set := func(n *HeaderName, text string) {
		if *n == nil {
			*n = &text
		}
	}
	set(&a.Reason, "x-titrate-reason")
	set(&a.RequestID, "x-request-id")
	set(&a.Limited, "x-envoy-ratelimited")
	set(&a.Wait, "x-titrate-wait-ms")
	set(&a.Congestion, "x-titrate-congestion")
	set(&a.Peek, "")
	if a.Mode == nil {
		a.Mode = new(config.Mode)
	}
	if a.MarkUpstream == nil {
		a.MarkUpstream = new(bool)
	}
	if a.Status == 0 {
		a.Status = http.StatusTooManyRequests
	}
	if a.RateLimitPolicy == nil {
		yes := true
		a.RateLimitPolicy = &yes
	}
	a.Body = max(a.Body, BodyAuto)
	a.Cost.From = max(a.Cost.From, CostNowhere)
	for _, when := range []*When{&a.RateLimit, &a.Log} {
		if *when == 0 {
			*when = WhenEvents
		}
	}
	a.LogTo = max(a.LogTo, LogToMetadata)
	if a.LogClient == 0 {
		a.LogClient = LogClientHash
	}
}
