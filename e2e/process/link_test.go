package process

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
)

// encoded are the frames of messages.
func encoded(t *testing.T, messages ...link.Message) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, m := range messages {
		if err := link.NewWriter(&b).Write(m); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// Offsets of a frame's header, see proto/link.
const (
	lengthAt  = 0
	versionAt = 4
	kindAt    = 5
)

// stranger is a client of the agent's socket that does not speak the protocol.
type stranger struct {
	name string
	says []byte
	// quiet: sends nothing more, and waits; otherwise it closes its side
	quiet bool
	// metric that counts it, and a piece of its labels
	metric, labels string
}

// strangers returns senders of messages that no filter sends. A Hello names a gateway of almost no weight, so
// that strangers that are accepted change no share.
func strangers(t *testing.T) []stranger {
	const malformed, refused, ofLink = "titrate_agent_malformed_total", "titrate_agent_link_refused_total",
		`source="link"`
	me := &link.Hello{Version: link.Version, Replica: "stranger", Generation: 1, Weight: 1e-6}
	hello := encoded(t, me)
	random := make([]byte, 64<<10)
	source := rand.NewChaCha8([32]byte{1})
	source.Read(random)
	patched := func(at int, with ...byte) []byte {
		b := slices.Clone(hello)
		copy(b[at:], with)
		return b
	}
	future := *me
	future.Version = link.Version + 7
	huge := binary.LittleEndian.AppendUint32(nil, 1<<31)
	claims := encoded(t, &exchange.Claims{Withdrawn: []uint64{1, 2, 3}})
	return []stranger{
		{"random bytes", random, true, malformed, ofLink},
		{"a huge length", patched(lengthAt, huge...), true, malformed, ofLink},
		{"a frame of another version", patched(versionAt, link.Version+7), true, malformed, ofLink},
		{"an unknown kind", patched(kindAt, 200), true, malformed, ofLink},
		{"a Hello of another version", encoded(t, &future), true, refused, ""},
		{"no Hello", encoded(t, &link.Heartbeat{}), true, refused, ""},
		{"half a Hello, then the end", hello[:len(hello)/2], false, refused, ""},
		{"half a Hello, then silence", hello[:len(hello)/2], true, refused, ""},
		{"half a header, then silence", hello[:3], true, refused, ""},
		{"a Hello, then random bytes", slices.Concat(hello, random), true, malformed, ofLink},
		{"a Hello, then half a frame", slices.Concat(hello, claims[:len(claims)-5]), false,
			"titrate_agent_link_accepted_total", ""},
		{"a Hello, then what only agents say", slices.Concat(hello, encoded(t, &config.Config{Revision: 1 << 40})),
			true, malformed, ofLink},
	}
}

// strangersOnTheLink: the agent closes them, counts them, and serves its Envoy as
// if they had never been.
func (w *system) strangersOnTheLink(t *testing.T) {
	metrics := w.Gateways[0].AgentWeb + "/metrics"
	sessions, revision := w.filter(0, "titrate_link_sessions_total"), w.filter(0, "titrate_config_revision")
	load := w.begin(t)
	for _, s := range strangers(t) {
		before := w.metric(metrics, s.metric, s.labels)
		began := time.Now()
		visit(t, w.sockets[0], s)
		took := time.Since(began)
		eventually(t, s.name+" is counted in "+s.metric, patience, func() string {
			return unless(w.metric(metrics, s.metric, s.labels) > before, "not counted")
		})
		t.Logf("%-36s closed after %.2f s", s.name, took.Seconds())
		if a := ask(t.Context(), w.client, w.fronts[0], "fed"); a.err != nil || a.status != http.StatusOK {
			t.Errorf("a request after %s: status %d, %v", s.name, a.status, a.err)
		}
	}
	if n := w.filter(0, "titrate_link_sessions_total"); n != sessions {
		t.Errorf("the real filter had to connect again: %v sessions, before %v", n, sessions)
	}
	if now := w.filter(0, "titrate_config_revision"); now != revision {
		t.Errorf("the real filter has revision %v, before %v", now, revision)
	}
	w.linked(t, patience, 0)
	// The key is new to both gateways: each may give its burst once before it receives the other's use.
	load.end(t, allowance{more: (gateways - 1) * thirtyBurst})
}

// visit says its bytes and waits until the agent closes the connection.
func visit(t *testing.T, socket string, s stranger) {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write(s.says); err != nil {
		return // closed while it was still speaking
	}
	if !s.quiet {
		_ = conn.(*net.UnixConn).CloseWrite()
	}
	if _, err := io.Copy(io.Discard, conn); err != nil && isTimeout(err) {
		t.Errorf("%s: the agent has kept the connection for %v", s.name, patience)
	}
}

func isTimeout(err error) bool {
	n, ok := err.(net.Error)
	return ok && n.Timeout()
}
