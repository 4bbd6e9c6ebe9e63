package telemetry

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"
)

// A request under way is answered before a server that is asked to end has ended.
func TestRequestsUnderWayEndInGrace(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked, answer := make(chan struct{}), make(chan struct{})
	server := &http.Server{ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(asked)
			<-answer
			w.WriteHeader(http.StatusNoContent)
		})}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- ServeHTTP(ctx, server, listener, time.Minute) }()
	code := make(chan int, 1)
	go func() {
		r, err := http.Get("http://" + listener.Addr().String())
		if err != nil {
			t.Error(err)
			code <- 0
			return
		}
		defer r.Body.Close()
		code <- r.StatusCode
	}()
	<-asked
	end()
	select {
	case err := <-ended:
		t.Errorf("ended with a request under way: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(answer)
	if got := <-code; got != http.StatusNoContent {
		t.Errorf("answered %d", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
