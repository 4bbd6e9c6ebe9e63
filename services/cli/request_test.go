package cli

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/titrate/titrate/services/command"
)

// broken passes connections on to a coordinator, but loses some of its answers: it breaks the connection
// before the end of the answer, or goes on without it.
type broken struct {
	net.Listener
	to          string
	first, last int32 // answers that are lost, counted from 1
	silent      bool  // the connection stays
	answers     atomic.Int32
}

func breaking(t *testing.T, b *broken) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.Listener = l
	t.Cleanup(func() { _ = l.Close() })
	go b.run()
	return l.Addr().String()
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

func (b *broken) pass(from net.Conn) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp", b.to)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
	for {
		frame, ends, err := readFrame(to)
		if err != nil {
			return
		}
		if n := b.answers.Add(ends); ends == 1 && n >= b.first && n <= b.last {
			if b.silent {
				_, _ = io.Copy(io.Discard, to)
			}
			return
		}
		if _, err := from.Write(frame); err != nil {
			return
		}
	}
}

// readFrame reads a frame of HTTP/2. ends is 1 if it ends an answer: the headers behind the message.
func readFrame(r io.Reader) (frame []byte, ends int32, err error) {
	const headers, endOfStream = 1, 1 // type and flag
	frame = make([]byte, 9)
	if _, err = io.ReadFull(r, frame); err != nil {
		return nil, 0, err
	}
	size, kind, flags := int(frame[0])<<16|int(frame[1])<<8|int(frame[2]), frame[3], frame[4]
	if kind == headers && flags&endOfStream != 0 {
		ends = 1
	}
	frame = append(frame, make([]byte, size)...)
	_, err = io.ReadFull(r, frame[9:])
	return frame, ends, err
}

// A change whose answer is lost is asked for again and made once. Without the ID, the second delete
// would find nothing.
func TestALostAnswerIsAskedForAgain(t *testing.T) {
	server := serveAPI(t)
	text := head + "kind: Tenant\nname: tenants/acme\n"
	through := &broken{to: server, first: 1, last: 2}
	if got := must(t, breaking(t, through), text, "apply", "-f", "-"); got != "tenants/acme created\n" {
		t.Errorf("%s", got)
	}
	if n := through.answers.Load(); n != 3 {
		t.Fatalf("%d answers, want two that are lost and one more: the test proves nothing", n)
	}
	if got := must(t, server, "", "history"); strings.Count(got, "apply") != 1 {
		t.Errorf("%s", got)
	}
	again := breaking(t, &broken{to: server, first: 1, last: 1000})
	fails(t, again, command.ExitFailed, strings.Replace(text, "acme", "bolt", 1),
		[]string{"whether the change was made is not known", "--request-id mine"},
		"apply", "-f", "-", "--timeout", "2s", "--request-id", "mine")
	if got := must(t, server, strings.Replace(text, "acme", "bolt", 1), "apply", "-f", "-", "--request-id",
		"mine"); got != "tenants/bolt created\n" {
		t.Errorf("repeated by hand: %s", got)
	}
	must(t, server, "", "delete", "tenants/bolt", "--request-id", "gone")
	must(t, server, "", "delete", "tenants/bolt", "--request-id", "gone")
	fails(t, server, command.ExitFailed, "", []string{"not found"}, "delete", "tenants/bolt")
	fails(t, server, command.ExitFailed, "", []string{"the request ID was used"}, "delete", "tenants/acme",
		"--request-id", "gone")
	fails(t, "127.0.0.1:1", command.ExitFailed, text, []string{"cannot reach the coordinator"}, "apply", "-f", "-")
}

// A request without an answer in time may have made its change, too: what is said has its ID.
func TestALateAnswerLeavesTheIDOfTheChange(t *testing.T) {
	server := serveAPI(t)
	late := breaking(t, &broken{to: server, first: 1, last: 1000, silent: true})
	text := head + "kind: Tenant\nname: tenants/acme\n"
	fails(t, late, command.ExitFailed, text, []string{"whether the change was made is not known", "--request-id mine"},
		"apply", "-f", "-", "--timeout", "2s", "--request-id", "mine")
	if got := must(t, server, text, "apply", "-f", "-", "--request-id", "mine"); got != "tenants/acme created\n" {
		t.Errorf("repeated by hand: %s", got)
	}
	fails(t, late, command.ExitFailed, text, []string{"no answer within 2s"}, "apply", "-f", "-", "--timeout", "2s",
		"--dry-run")
}

// The ID that a delete of several names leaves is the one of the command, which can be repeated with it.
func TestALostAnswerToOneDeleteOfSeveral(t *testing.T) {
	server := serveAPI(t)
	must(t, server, head+"kind: Tenant\nname: tenants/acme\n---\n"+head+"kind: Tenant\nname: tenants/bolt\n",
		"apply", "-f", "-")
	second := breaking(t, &broken{to: server, first: 2, last: 1000})
	status, out, errs := titrate(t, second, "", "delete", "tenants/acme", "tenants/bolt", "--timeout", "2s",
		"--request-id", "both")
	if status != command.ExitFailed || out != "tenants/acme deleted\n" || !strings.Contains(errs,
		"--request-id both makes") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
	if got := must(t, server, "", "delete", "tenants/acme", "tenants/bolt", "--request-id",
		"both"); got != "tenants/acme deleted\ntenants/bolt deleted\n" {
		t.Errorf("%s", got)
	}
}
