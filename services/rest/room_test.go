package rest_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/titrate/titrate/services/intake"
	"github.com/titrate/titrate/services/rest"
)

// noting is room that notes how much was taken.
type noting struct {
	*intake.Intake
	taken atomic.Int64
}

func (n *noting) Take(method string, bytes int64) error {
	defer n.taken.Add(bytes)
	return n.Intake.Take(method, bytes)
}

// Bodies share the room with calls over gRPC. A call that finds no room is asked to try again. A call gives its room
// back when it ends.
func TestBodiesShareRoom(t *testing.T) {
	in := &noting{Intake: intake.New(intake.Options{Room: 200 << 10, Bounds: bytes1M,
		Log: slog.New(slog.DiscardHandler)})}
	s := serve(t, rest.Options{Bounds: bytes1M, Room: in})
	half := `{"name":"pools/x` + strings.Repeat(" ", 60<<10)
	body, more := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+"/v1alpha1/pools", body)
		if err != nil {
			t.Error(err)
			return
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			return
		}
		answer.Body.Close()
	}()
	if _, err := more.Write([]byte(half)); err != nil {
		t.Fatal(err)
	}
	for in.taken.Load() < 2*(50<<10) { // a body takes twice its length; net/http keeps the end of it back
		runtime.Gosched()
	}
	for _, c := range [][2]string{{"POST", "/v1alpha1/pools"}, {"PATCH", "/v1alpha1/pools/api"}} {
		if status, text := s.ask(c[0], c[1], half+`"}`); status != http.StatusTooManyRequests ||
			!strings.Contains(text, "RESOURCE_EXHAUSTED") || !strings.Contains(text, "try again") {
			t.Errorf("%v: %d %.200s", c, status, text)
		}
	}
	more.Close()
	<-ended
	if err := in.Take("x", 200<<10); err != nil {
		t.Errorf("after all: %v", err)
	}
}
