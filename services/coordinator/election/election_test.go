package election

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/titrate/titrate/services/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// A candidate that waits for the lead notices that etcd is gone, and ends when it is to.
func TestCandidateWithoutEtcd(t *testing.T) {
	etcd, err := storetest.Start(t.TempDir(), "")
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

// An elected one whose watch cannot go on, since etcd has compacted what it would go on from, lets others
// share still.
func TestChairAfterACompaction(t *testing.T) {
	dir := t.TempDir()
	etcd, err := storetest.Start(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { etcd.Kill() }()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	run := func(name string) *Elector {
		e := New(Config{Client: etcd.Client(t), Prefix: "/election", Address: name, Name: name, Share: true,
			TTL: 20 * time.Second})
		running.Go(func() { e.Run(ctx) })
		return e
	}
	sharers := func(e *Elector) int {
		if s, _ := e.State(); s.Sharing != nil {
			return len(s.Sharing.Sharers)
		}
		return 0
	}
	chair := run("a")
	eventually(t, "a shares", func() bool { return sharers(chair) == 1 })
	client := etcd.Client(t)
	var last int64
	for range 3 {
		put, err := client.Put(ctx, "/else", "")
		if err != nil {
			t.Fatal(err)
		}
		last = put.Header.Revision
	}
	if _, err := client.Compact(ctx, last, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	etcd.Kill()
	if etcd, err = storetest.Start(dir, etcd.Endpoint); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * reconnected) // a's watch has the change
	run("b")
	eventually(t, "b shares, too", func() bool { return sharers(chair) == 2 })
	if won, lost := chair.Elections(); won != 1 || lost != 0 {
		t.Errorf("a was elected %d times and not any more %d times: the test has missed the watch", won, lost)
	}
}

// reconnected bounds the time until a client tries a member of etcd again.
const reconnected = time.Second

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
