// Package webhook sends events to one URL of the operator, signed, until each is taken.
//
// # Model
//
// A [Sender] asks for the events that are to be sent, and posts them one after another. An answer of 200 to 299 takes
// an event. An event that is not taken is tried again after 1 s, 2 s and so on, up to five minutes; others go on
// meanwhile. If the receiver cannot be reached, or answers 429 or 503, everything waits for that time.
//
// A request is as Standard Webhooks has it: the headers webhook-id, webhook-timestamp, and webhook-signature, which
// is "v1," and the base64 of HMAC-SHA256 over "ID.TIMESTAMP.BODY". The ID of an event is always the same, so that a
// receiver which remembers IDs takes nothing twice: after a failover an event whose answer was lost comes again.
//
// # Where it connects to
//
// The coordinator must be no way into a network that its callers cannot reach:
//
//   - The URL is a flag's. Nothing of the API, and no tenant, can set, change or see it.
//   - It is https; http only with a loopback address in it. It has no user and no password.
//   - Each address that its name stands for is checked when a connection is made. Link-local,
//     multicast and unspecified addresses are refused, and those at which clouds have metadata, also as an IPv6 address
//     with the IPv4 address in it. Loopback and private ones are refused, too, unless Internal is set.
//   - Redirects are not followed, and proxies of the environment are not used.
//   - Of the answer only the status counts. Nothing of its headers and body is kept or logged.
//
// The secret is read from its file for each request, so it may be replaced at any time. Neither it nor the URL's path
// and query are logged.
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// timeout bounds a request, and maxAnswer what is read of an answer.
	timeout, maxAnswer = 10 * time.Second, 64 << 10
	// firstRetry and lastRetry bound the time until the next try.
	firstRetry, lastRetry = time.Second, 5 * time.Minute
	// forgetAfter is the time after its next try for which an event is known that there was no room to look at.
	forgetAfter = time.Hour
	// every is the interval of questions for events, and most bounds the events of an answer.
	every, most = time.Second, 256
	// minSecret is the least length of a secret, bytes.
	minSecret = 16
)

// Config has the settings of an operator.
type Config struct {
	URL string // "" = no webhook
	// Secret is the file with the secret: text, or whsec_ and base64.
	Secret string
	// Internal lets the URL have a loopback or private address.
	Internal bool
}

// Check reports what is wrong with the settings.
func (c *Config) Check() error {
	if c.URL == "" {
		if c.Secret != "" || c.Internal {
			return errors.New("--usage-webhook-secret and --usage-webhook-internal are about --usage-webhook: give " +
				"that, too")
		}
		return nil
	}
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Hostname() == "":
		return errors.New("--usage-webhook: want a URL, such as https://billing.example.org/hook")
	case u.User != nil:
		return errors.New("--usage-webhook: want a URL without user and password: requests are signed")
	case u.Scheme == "http" && loopback(u.Hostname()) && c.Internal, u.Scheme == "https":
	default:
		return errors.New("--usage-webhook: want https; http only with a loopback address and --usage-webhook-internal")
	}
	if c.Secret == "" {
		return errors.New("--usage-webhook needs --usage-webhook-secret: the file with the secret of the signatures")
	}
	_, err = c.secret()
	return err
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// secret reads the secret. The error does not have it.
func (c *Config) secret() ([]byte, error) {
	text, err := os.ReadFile(c.Secret)
	if err != nil {
		return nil, fmt.Errorf("--usage-webhook-secret: %w", err)
	}
	key := bytes.TrimSpace(text)
	if coded, is := bytes.CutPrefix(key, []byte("whsec_")); is {
		if key, err = base64.StdEncoding.DecodeString(string(coded)); err != nil {
			return nil, errors.New("--usage-webhook-secret: no base64 after whsec_")
		}
	}
	if len(key) < minSecret {
		return nil, fmt.Errorf("--usage-webhook-secret: want at least %d bytes", minSecret)
	}
	return key, nil
}

// Event is to be sent.
type Event struct {
	ID        string
	Body      []byte // JSON
	Delivered func()
}

// Sender posts events. Safe for concurrent use.
type Sender struct {
	of    Config
	next  func(most int) []Event
	log   *slog.Logger
	to    http.RoundTripper // it follows no redirect
	waits map[string]retry  // of Run

	mu    sync.Mutex
	stats Stats
}

type retry struct {
	at    time.Time
	after time.Duration
}

// Stats count the requests of a sender since the start.
type Stats struct {
	Delivered, Failed uint64
	Waiting           int   // events that were tried and not taken
	Last              error // of the last request; nil: it was taken
}

// New returns a sender. next returns events that are not delivered yet.
func New(of Config, next func(most int) []Event, log *slog.Logger) *Sender {
	s := &Sender{of: of, next: next, log: log, waits: map[string]retry{}}
	dialer := &net.Dialer{Timeout: timeout, Control: s.control}
	s.to = &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: timeout, MaxIdleConns: 1,
		MaxResponseHeaderBytes: maxAnswer}
	return s
}

// errAddress says that an address is refused.
var errAddress = errors.New("is not an address that a webhook may have")

// control refuses addresses when a connection is made, whatever a name stood for before.
func (s *Sender) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	switch ip := at.Addr().Unmap().WithZone(""); {
	case never(ip), never(embedded(ip)):
		return fmt.Errorf("%s %w", ip, errAddress)
	case !s.of.Internal && (ip.IsLoopback() || ip.IsPrivate() || within(internal, ip)):
		return fmt.Errorf("%s %w without --usage-webhook-internal", ip, errAddress)
	}
	return nil
}

// internal are networks that the standard library does not count as private: carrier NAT, this network, and IPv6
// forms that have an IPv4 address in them.
var internal = []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	nat64[0], nat64[1], sixToFour}

// metadata are addresses at which clouds give programs their credentials, beside link-local ones.
var metadata = []netip.Prefix{netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("fd00:ec2::254/128"), netip.MustParsePrefix("fd20:ce::254/128")}

func within(prefixes []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// never reports whether no webhook may have an address.
func never(ip netip.Addr) bool {
	return ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() || within(metadata, ip) ||
		ip == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// nat64 and sixToFour are forms of IPv6 addresses that have an IPv4 address at their end, or after two bytes.
var nat64 = []netip.Prefix{netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48")}
var sixToFour = netip.MustParsePrefix("2002::/16")

// embedded returns the IPv4 address in an IPv6 address, the zero Addr if there is none.
func embedded(ip netip.Addr) netip.Addr {
	b := ip.As16()
	switch {
	case within(nat64, ip):
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour.Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return netip.Addr{}
}

// Run sends events until ctx ends.
func (s *Sender) Run(ctx context.Context) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	all := retry{}
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			if now.After(all.at) {
				all = s.round(ctx, now, all)
			}
		}
	}
}

// round sends what is due. all is the wait of everything.
func (s *Sender) round(ctx context.Context, now time.Time, all retry) retry {
	events := s.next(most)
	s.forget(now, events)
	for _, e := range events {
		known, tried := s.waits[e.ID]
		if ctx.Err() != nil || tried && now.Before(known.at) {
			continue
		}
		alone, err := s.post(ctx, e)
		s.count(err)
		if err == nil {
			delete(s.waits, e.ID)
			all = retry{}
			e.Delivered()
			continue
		}
		if s.waits[e.ID] = later(now, known); !alone {
			all = later(now, all)
			break
		}
	}
	s.mu.Lock()
	s.stats.Waiting = len(s.waits)
	s.mu.Unlock()
	return all
}

// forget drops the waits of events that are not open any more. Events that there was no room for keep theirs.
func (s *Sender) forget(now time.Time, events []Event) {
	open := make(map[string]bool, len(events))
	for _, e := range events {
		open[e.ID] = true
	}
	for id, w := range s.waits {
		if !open[id] && (len(events) < most || now.Sub(w.at) > forgetAfter) {
			delete(s.waits, id)
		}
	}
}

// later returns the next try after a failed one: twice as late, less up to a quarter.
func later(now time.Time, before retry) retry {
	after := min(max(2*before.after, firstRetry), lastRetry)
	return retry{at: now.Add(after - rand.N(after/4)), after: after}
}

func (s *Sender) count(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.stats.Last
	s.stats.Last = err
	if err == nil {
		s.stats.Delivered++
		return
	}
	s.stats.Failed++
	if was == nil {
		s.log.Warn("a usage event is not taken by the webhook; it is tried again", "error", err)
	}
}

// post sends an event. alone: an error is about this event, not about all.
func (s *Sender) post(ctx context.Context, e Event) (alone bool, err error) {
	key, err := s.of.secret()
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.of.URL, bytes.NewReader(e.Body))
	if err != nil {
		return false, errors.New("--usage-webhook: not a URL")
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	r.Header.Set("Content-Type", "application/cloudevents+json")
	r.Header.Set("User-Agent", "titrate-coordinator")
	r.Header.Set("webhook-id", e.ID)
	r.Header.Set("webhook-timestamp", at)
	r.Header.Set("webhook-signature", Sign(key, e.ID, at, e.Body))
	answer, err := s.to.RoundTrip(r)
	if err != nil {
		return false, err // without the URL
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer))
	switch code := answer.StatusCode; {
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		return false, fmt.Errorf("the webhook answers with status %d", code)
	case code/100 != 2:
		return true, fmt.Errorf("the webhook answers with status %d", code)
	}
	return true, nil
}

// Sign returns the signature of a request.
func Sign(key []byte, id, at string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.Join([]string{id, at, ""}, ".")))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Stats returns what has happened since the start.
func (s *Sender) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Trouble is the error of the last request, nil if it was taken.
func (s *Sender) Trouble() error {
	if err := s.Stats().Last; err != nil {
		return fmt.Errorf("usage events are not delivered: %w", err)
	}
	return nil
}
