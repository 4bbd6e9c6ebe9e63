package election

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/titrate/titrate/services/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// A candidate that waits for the lead notices that etcd is gone, and ends when it is to.
func TestCandidateWithoutEtcd(t *testing.T) {
	etcd, err := storetest.Start(t.TempDir(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Kill)
	ctx, stop := context.WithCancel(t.Context())
	run := func(address string, role Role) (e *Elector, ended chan struct{}) {
		e, ended = New(Config{Client: etcd.Client(t), Prefix: "/election", Address: address, TTL: time.Second}),
			make(chan struct{})
		go func() { defer close(ended); e.Run(ctx) }()
		eventually(t, address+" is "+role.String(), func() bool {
			s, _ := e.State()
			return s.Role == role && s.Leader == "a"
		})
		return e, ended
	}
	_, first := run("a", Leading)
	waiting, second := run("b", Following)
	etcd.Kill()
	eventually(t, "the one that waits notices", func() bool { return waiting.Etcd() != nil })
	stop()
	for _, ended := range []chan struct{}{first, second} {
		select {
		case <-ended:
		case <-time.After(patience):
			t.Fatal("a candidate does not end")
		}
	}
}

// patience is generous: a loaded machine must not fail a test.
const patience = 30 * time.Second

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
