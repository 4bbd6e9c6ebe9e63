package cli

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// broken passes connections on to a coordinator. It breaks those of the first times as soon as the
// coordinator has answered a request, so that the answer is lost.
type broken struct {
	net.Listener
	to     string
	breaks atomic.Int32
}

func breaking(t *testing.T, to string, times int32) *broken {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &broken{Listener: l, to: to}
	b.breaks.Store(times)
	t.Cleanup(func() { _ = l.Close() })
	go b.run()
	return b
}

func (b *broken) run() {
	for {
		from, err := b.Accept()
		if err != nil {
			return
		}
		go b.pass(from)
	}
}

// answerFrom is about the size of a coordinator's answer to a change; what HTTP/2 says before is smaller.
const answerFrom = 100

func (b *broken) pass(from net.Conn) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp", b.to)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := to.Read(buffer)
		if err != nil || n >= answerFrom && b.breaks.Add(-1) >= 0 {
			return
		}
		if _, err := from.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// A change whose answer is lost is asked for again and made once. Without the ID, the second delete
// would find nothing.
func TestALostAnswerIsAskedForAgain(t *testing.T) {
	server := serveAPI(t)
	text := head + "kind: Tenant\nname: tenants/acme\n"
	through := breaking(t, server, 2)
	if got := must(t, through.Addr().String(), text, "apply", "-f", "-"); got != "tenants/acme created\n" {
		t.Errorf("%s", got)
	}
	if left := through.breaks.Load(); left >= 0 {
		t.Fatalf("the connection was broken %d times, want 2: the test proves nothing", 2-left)
	}
	if got := must(t, server, "", "history"); strings.Count(got, "apply") != 1 {
		t.Errorf("%s", got)
	}
	again := breaking(t, server, 1000)
	fails(t, again.Addr().String(), exitFailed, strings.Replace(text, "acme", "bolt", 1),
		[]string{"whether the change was made is not known", "--request-id mine"},
		"apply", "-f", "-", "--timeout", "2s", "--request-id", "mine")
	if got := must(t, server, strings.Replace(text, "acme", "bolt", 1), "apply", "-f", "-", "--request-id",
		"mine"); got != "tenants/bolt created\n" {
		t.Errorf("repeated by hand: %s", got)
	}
	must(t, server, "", "delete", "tenants/bolt", "--request-id", "gone")
	must(t, server, "", "delete", "tenants/bolt", "--request-id", "gone")
	fails(t, server, exitFailed, "", []string{"not found"}, "delete", "tenants/bolt")
	fails(t, server, exitFailed, "", []string{"the request ID was used"}, "delete", "tenants/acme", "--request-id", "gone")
	fails(t, "127.0.0.1:1", exitFailed, text, []string{"cannot reach the coordinator"}, "apply", "-f", "-")
}
