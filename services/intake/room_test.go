package intake_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/intake"
)

const (
	long = 256 << 10 // bytes of a message
	room = 4 * long
)

// slowly are calls that stop one byte before the end of their message.
type slowly struct {
	http     http.Client
	statuses chan codes.Code
}

func (s *served) slowly(t *testing.T) *slowly {
	var only http.Protocols
	only.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &only,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return s.listener.Dial() }}
	t.Cleanup(transport.CloseIdleConnections)
	return &slowly{http.Client{Transport: transport}, make(chan codes.Code, 1000)}
}

func (s *slowly) start(t *testing.T, calls int, method string) {
	for range calls {
		body, more := io.Pipe()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x"+method, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/grpc")
		go func() {
			message := binary.BigEndian.AppendUint32([]byte{0}, long)
			_, _ = more.Write(append(message, make([]byte, long-1)...))
		}()
		go func() {
			answer, err := s.http.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			code, _ := strconv.Atoi(answer.Trailer.Get("Grpc-Status") + answer.Header.Get("Grpc-Status"))
			s.statuses <- codes.Code(code)
		}()
	}
}

// ended returns the statuses of the calls that have ended by now.
func (s *slowly) ended() (all []codes.Code) {
	synctest.Wait()
	for len(s.statuses) > 0 {
		all = append(all, <-s.statuses)
	}
	return all
}

func ofLongMessages(string) intake.Bounds { return intake.Bounds{Bytes: long, Entries: 10} }

// Calls that stop before the end of their long messages take the room of all calls and no more: others are
// refused at once. They end after a minute, and the room is there again.
func TestSlowCallsShareRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveWith(t, intake.Options{Bounds: ofLongMessages, Room: room})
		slow := s.slowly(t)
		slow.start(t, 20, quotav1.QuotaService_Apply_FullMethodName)
		if got := slow.ended(); !slices.Equal(got, slices.Repeat([]codes.Code{codes.ResourceExhausted}, 16)) {
			t.Errorf("at once: %v, want 16 refused", got)
		}
		time.Sleep(time.Minute)
		if got := slow.ended(); !slices.Equal(got, slices.Repeat([]codes.Code{codes.DeadlineExceeded}, 4)) {
			t.Errorf("after a minute: %v, want 4 that are late", got)
		}
		if got := fmt.Sprint(s.Refused()); got != "[0 0 0 0 16 4 0]" {
			t.Errorf("refused %s of %v", got, intake.Reasons)
		}
		message := append([]byte{0xaa, 0x06, 0xfb, 0xff, 0x0f}, make([]byte, long-5)...) // one field that is not known
		s.api.during = func() {
			if err := s.Take("x", room); err == nil {
				t.Error("a message takes no room while it is handled")
			}
		}
		if err := s.send(t, quotav1.QuotaService_Apply_FullMethodName, message); err != nil {
			t.Errorf("a message that is whole: %v", err)
		}
		if err := s.Take("x", room); err != nil {
			t.Errorf("after all calls: %v", err)
		}
	})
}

// Streams wait for room.
func TestSlowStreamsWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveWith(t, intake.Options{Bounds: ofLongMessages, Room: room})
		slow := s.slowly(t)
		slow.start(t, 6, controlv1.ControlService_Connect_FullMethodName)
		for minute, want := range []int{0, 4, 2} {
			if got := slow.ended(); !slices.Equal(got, slices.Repeat([]codes.Code{codes.DeadlineExceeded}, want)) {
				t.Errorf("after %d minutes: %v, want %d that are late", minute, got, want)
			}
			time.Sleep(time.Minute)
		}
	})
}

// endless is a body of zeros that counts the bytes that are read.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(b []byte) (int, error) {
	e.read.Add(int64(len(b)))
	return len(b), nil
}

// The window of a call that is not admitted yet stays small, whatever the connection has carried before.
func TestTheWindowDoesNotGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan struct{})
		s := serveWith(t, intake.Options{Bounds: ofLongMessages, Admit: func(_ context.Context, method string) error {
			if method == controlv1.ControlService_Connect_FullMethodName {
				<-asked
			}
			return nil
		}})
		slow := s.slowly(t)
		for range 100 { // gRPC estimates the network by them
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
				"http://x"+quotav1.QuotaService_Apply_FullMethodName,
				bytes.NewReader(append(binary.BigEndian.AppendUint32([]byte{0}, long), make([]byte, long)...)))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/grpc")
			answer, err := slow.http.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}
		body := &endless{}
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodPost,
			"http://x"+controlv1.ControlService_Connect_FullMethodName, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/grpc")
		go func() {
			if answer, err := slow.http.Do(r); err == nil {
				answer.Body.Close()
			}
		}()
		synctest.Wait()
		if got := body.read.Load(); got > 128<<10 {
			t.Errorf("%d KiB sent into a call that is not admitted, want 64 and a frame", got>>10)
		}
		cancel()
		close(asked)
	})
}
