package coordinator_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"sync"
	"testing"

	"google.golang.org/grpc/health/grpc_health_v1"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// Many calls at a time that stop one byte before the end of their messages take little memory of the
// coordinator. A stranger calls the methods that anyone may call, a viewer calls Plan, the method with the
// longest messages, over gRPC and over HTTP.
func TestSlowCallsTakeLittleMemory(t *testing.T) {
	g := startBombed(t)
	for _, c := range []struct {
		who, url     string
		calls, bytes int
		most         int // MiB
	}{
		{"", "https://" + g.c.Address() + grpc_health_v1.Health_Check_FullMethodName, 250, 1 << 20, 128},
		{"", "https://" + g.c.Address() + "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", 250, 1 << 20, 128},
		{"spiffe://x/nobody", "https://" + g.c.Address() + quotav1.AccessService_GetAccess_FullMethodName, 250, 1 << 20,
			128},
		{"spiffe://x/viewer", "https://" + g.c.Address() + quotav1.QuotaService_Plan_FullMethodName, 8, bombBytes, 384},
		{"spiffe://x/viewer", "https://" + g.c.RestAddress() + "/v1alpha1:plan", 12, bombBytes, 640},
	} {
		client := g.clients(c.who)[c.who]
		if taken := taken(t, func() { stall(t, client, c.url, c.calls, c.bytes) }); taken > c.most {
			t.Errorf("%d calls of %s as %q: %d MiB taken, want %d at most", c.calls, c.url, c.who, taken, c.most)
		}
	}
}

// ending is a body that says when all of it was read, and does not end before its call.
type ending struct {
	io.Reader
	call context.Context
	all  func()
}

func (e *ending) Read(b []byte) (int, error) {
	n, err := e.Reader.Read(b)
	if err == io.EOF {
		e.all()
		<-e.call.Done()
	}
	return n, err
}

// stall makes calls at a time that each send all but one byte of a message, and returns when each one has
// sent that or was answered.
func stall(t *testing.T, client *http.Client, url string, calls, size int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var stalled, ended sync.WaitGroup
	for range calls {
		stalled.Add(1)
		once := sync.OnceFunc(stalled.Done)
		head := binary.BigEndian.AppendUint32([]byte{0}, uint32(size))
		body := io.MultiReader(bytes.NewReader(head), &repeated{of: element(1), left: size - 1})
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, &ending{body, ctx, once})
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/grpc")
		r.Header.Set("Te", "trailers")
		ended.Go(func() {
			defer once()
			if answer, err := client.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		})
	}
	stalled.Wait()
	cancel()
	ended.Wait()
}
