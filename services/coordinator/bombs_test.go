package coordinator_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/titrate/titrate/envoy-filter/certtest"
	"github.com/titrate/titrate/services/coordinator"
	"github.com/titrate/titrate/services/rest"
)

const (
	// bombBytes is the length of a message that decoded would take 3.9 GiB: 33 million empty elements.
	bombBytes = 64<<20 - 64
	// unread and counted bound what a refused call may take of the coordinator's memory, MiB: its message is
	// not read; it is read and counted, and not decoded.
	unread, counted = 32, 256
)

// Whatever a caller sends to whichever method, a call that is refused takes little memory of the
// coordinator. It may be the call of a stranger without credentials, of any certificate of the CA, of
// a viewer, an editor and an agent, plain and compressed, on both ports.
func TestARefusedCallTakesLittleMemory(t *testing.T) {
	g := startBombed(t)
	for who, client := range g.clients("", "spiffe://x/nobody", "spiffe://x/viewer", "spiffe://x/acme", "spiffe://x/agent/a1") {
		if testing.Short() && who != "" && who != "spiffe://x/viewer" {
			continue
		}
		for _, m := range methods(t) {
			path := fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())
			address := g.c.Address()
			if m.Parent().Name() == "ControlService" || m.Parent().Name() == "PeerService" {
				address = g.c.AgentAddress()
			}
			for _, packed := range []bool{true, false} {
				if who == "spiffe://x/nobody" && !packed {
					continue // as the stranger
				}
				status := codes.Unavailable // of a handshake that fails: the agents' port wants a certificate
				taken := taken(t, func() { status = call(client, "https://"+address+path, m.Input(), packed) })
				most := unread
				if m.Name() == "Plan" || m.Name() == "Apply" {
					most = counted
				}
				if who == "" || packed {
					most = unread
				}
				if status == codes.OK || taken > most {
					t.Errorf("%s as %q, compressed %v: %v, %d MiB taken; want an error, and %d MiB at most", path, who,
						packed, status, taken, most)
				}
			}
		}
	}
	answer, err := g.clients("spiffe://x/viewer")["spiffe://x/viewer"].Get("https://" + g.c.AdminAddress() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	metrics, err := io.ReadAll(answer.Body)
	for _, reason := range []string{"entries", "length", "compressed"} {
		counts := regexp.MustCompile(`titrate_messages_refused_total{[^}]*reason="` + reason + `"[^}]*} [1-9]`)
		if err != nil || !counts.Match(metrics) {
			t.Errorf("titrate_messages_refused_total does not count %s: %v", reason, err)
		}
	}
}

// So it is over HTTP, for each path, whether it takes a body or not.
func TestARefusedRequestTakesLittleMemory(t *testing.T) {
	g := startBombed(t)
	for who, client := range g.clients("", "spiffe://x/nobody", "spiffe://x/viewer", "spiffe://x/acme") {
		for _, one := range paths(t) {
			method, path, _ := strings.Cut(one, " ")
			status := 0
			taken := taken(t, func() {
				prefix := `{"resources":[`
				if strings.HasSuffix(path, ":plan") {
					prefix = `{"apply":{"resources":[`
				}
				body := io.MultiReader(strings.NewReader(prefix), &repeated{of: []byte("{},"), left: bombBytes})
				r, err := http.NewRequestWithContext(t.Context(), method, "https://"+g.c.RestAddress()+path, body)
				if err != nil {
					t.Fatal(err)
				}
				if answer, err := client.Do(r); err == nil {
					status = answer.StatusCode
					answer.Body.Close()
				}
			})
			most := unread
			if who != "" && (strings.HasSuffix(path, ":plan") || strings.HasSuffix(path, ":apply")) {
				most = counted
			}
			if status == http.StatusOK && method != http.MethodGet || taken > most {
				t.Errorf("%s %s as %q: %d, %d MiB taken; want an error, and %d MiB at most", method, path, who, status,
					taken, most)
			}
		}
	}
}

// startBombed starts a coordinator whose callers are known by certificates and by tokens.
func startBombed(t *testing.T) *guarded {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(tokens, fmt.Appendf(nil, "tokens: [{name: ci, sha256: %x, role: viewer}]",
		sha256.Sum256([]byte("s"))), 0o600); err != nil {
		t.Fatal(err)
	}
	return startGuarded(t, func(c *coordinator.Config) {
		c.Rest, c.Tokens, c.SharePools = "127.0.0.1:0", tokens, true // with PeerService
	})
}

// clients are HTTP/2 clients with a certificate of each identity, "" = none.
func (g *guarded) clients(ids ...string) map[string]*http.Client {
	all := map[string]*http.Client{}
	for _, id := range ids {
		var cert, key string
		if id != "" {
			cert, key = g.ca.Issue(g.t, id)
		}
		transport := &http.Transport{TLSClientConfig: certtest.Client(g.t, certtest.Bundle(g.t, g.ca), cert, key),
			ForceAttemptHTTP2: true}
		g.t.Cleanup(transport.CloseIdleConnections)
		all[id] = &http.Client{Transport: transport}
	}
	return all
}

// methods are all that a coordinator serves.
func methods(t *testing.T) (all []protoreflect.MethodDescriptor) {
	t.Helper()
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if name := string(f.Package()); !strings.HasPrefix(name, "titrate.") && name != "grpc.health.v1" &&
			name != "grpc.reflection.v1" {
			return true
		}
		for i := range f.Services().Len() {
			for j := range f.Services().Get(i).Methods().Len() {
				all = append(all, f.Services().Get(i).Methods().Get(j))
			}
		}
		return true
	})
	if len(all) < 34 {
		t.Fatalf("only %d methods", len(all))
	}
	return all
}

// paths returns the paths of the OpenAPI document, each behind its HTTP method.
func paths(t *testing.T) (all []string) {
	t.Helper()
	var document struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal(rest.Document, &document); err != nil {
		t.Fatal(err)
	}
	for path, of := range document.Paths {
		path = regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(path, "x")
		for _, method := range slices.Sorted(maps.Keys(of)) {
			all = append(all, strings.ToUpper(method)+" "+path)
		}
	}
	return all
}

// taken measures how much memory a call adds to this process at most, MiB.
func taken(t *testing.T, during func()) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("memory is measured by /proc")
	}
	for range 3 { // a sync.Pool keeps things over two collections
		debug.FreeOSMemory()
	}
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak restarts
		t.Fatal(err)
	}
	before := resident(t, "VmRSS")
	during()
	return (resident(t, "VmHWM") - before) >> 10
}

// resident is a line of this process's status, KiB.
func resident(t *testing.T, what string) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(what + `:\s+(\d+) kB`).FindSubmatch(text)
	kib, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib
}

// repeated reads as the same bytes again and again.
type repeated struct {
	of   []byte
	left int
	at   int
}

func (r *repeated) Read(b []byte) (n int, err error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	for n < len(b) && n < r.left {
		copied := copy(b[n:min(len(b), r.left)], r.of[r.at:])
		n, r.at = n+copied, (r.at+copied)%len(r.of)
	}
	r.left -= n
	return n, nil
}

// bomb is a message with as many elements as there is room for in bombBytes, and its length.
func bomb(d protoreflect.MessageDescriptor) (int, io.Reader) {
	inner := inside(d)
	switch {
	case inner == nil:
		return bombBytes, &repeated{of: element(1), left: bombBytes}
	case inner.IsList():
		return bombBytes, &repeated{of: element(inner.Number()), left: bombBytes}
	}
	size, rest := bomb(inner.Message())
	head := protowire.AppendVarint(protowire.AppendTag(nil, inner.Number(), protowire.BytesType), uint64(size))
	return len(head) + size, io.MultiReader(bytes.NewReader(head), rest)
}

func element(number protowire.Number) []byte {
	return append(protowire.AppendTag(nil, number, protowire.BytesType), 0)
}

// inside is a field with a list of messages, or else one message that has such a field.
func inside(d protoreflect.MessageDescriptor) (found protoreflect.FieldDescriptor) {
	for i := range d.Fields().Len() {
		switch f := d.Fields().Get(i); {
		case f.Message() == nil || f.IsMap() || f.Number() > 15:
		case f.IsList():
			return f
		case found == nil && f.Message() != d && inside(f.Message()) != nil:
			found = f
		}
	}
	return found
}

// packedBombs are bombs as gzip has them, by message.
var packedBombs = map[protoreflect.FullName][]byte{}

// call sends a bomb, and returns the status of the call.
func call(client *http.Client, url string, d protoreflect.MessageDescriptor, packed bool) codes.Code {
	size, body := bomb(d)
	header := make([]byte, 5)
	if packed {
		if packedBombs[d.FullName()] == nil {
			packedBombs[d.FullName()] = pack(body)
		}
		header[0], size = 1, len(packedBombs[d.FullName()])
		body = bytes.NewReader(packedBombs[d.FullName()])
	}
	binary.BigEndian.PutUint32(header[1:], uint32(size))
	r, err := http.NewRequest(http.MethodPost, url, io.MultiReader(bytes.NewReader(header), body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Te", "trailers")
	if packed {
		r.Header.Set("Grpc-Encoding", "gzip")
	}
	answer, err := client.Do(r)
	if err != nil {
		return codes.Unavailable
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	status := answer.Trailer.Get("Grpc-Status") + answer.Header.Get("Grpc-Status")
	code, err := strconv.Atoi(status)
	if err != nil {
		return codes.Unknown
	}
	return codes.Code(code)
}

func pack(of io.Reader) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = io.Copy(z, of)
	_ = z.Close()
	return out.Bytes()
}
