package hotrestart

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

func TestSocketName(t *testing.T) {
	a := SocketName("gw-1", "/run/a.sock")
	if a != SocketName("gw-1", "/run/a.sock") || a == SocketName("gw-2", "/run/a.sock") ||
		a == SocketName("gw-1", "/run/b.sock") || len(a) > 100 {
		t.Error(a)
	}
}

// A chain of three generations: each has all keys of the generations before.
func TestChildReceivesEveryKey(t *testing.T) {
	name := SocketName("test", t.TempDir())
	appendTo := func(to *[]exchange.KeySpent) func(exchange.KeySpent) {
		return func(s exchange.KeySpent) { *to = append(*to, s) }
	}
	var none []exchange.KeySpent
	if n, err := Receive(name, appendTo(&none)); n != 0 || err != nil {
		t.Fatalf("without a parent: %d keys, %v", n, err)
	}
	first := []exchange.KeySpent{{Key: 1, Ahead: time.Second}, {Key: 1<<64 - 1, Ahead: time.Hour, Named: true}}
	serve := func(have []exchange.KeySpent) (stop func() error) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- Serve(ctx, name, func(visit func(exchange.KeySpent)) {
				for _, s := range have {
					visit(s)
				}
			})
		}()
		return func() error { cancel(); return <-done }
	}
	ask := func() (got []exchange.KeySpent) {
		t.Helper()
		for len(got) == 0 { // until the parent listens
			if _, err := Receive(name, appendTo(&got)); err != nil {
				t.Fatal(err)
			}
		}
		return got
	}
	stopParent := serve(first)
	second := ask()
	if !slices.Equal(second, first) {
		t.Errorf("received %v of %v", second, first)
	}
	stopChild := serve(append(second, exchange.KeySpent{Key: 7, Ahead: 1})) // while the parent lives on
	if third := ask(); len(third) != 3 || third[2].Key != 7 {
		t.Errorf("the third receives %v", third)
	}
	stopAlone := serve(first)
	for _, stop := range []func() error{stopParent, stopChild, stopAlone} {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestCutShort(t *testing.T) {
	var whole bytes.Buffer
	if err := write(&whole,
		func(visit func(exchange.KeySpent)) { visit(exchange.KeySpent{Key: 5, Ahead: 9}) }); err != nil {
		t.Fatal(err)
	}
	for n := range whole.Len() {
		if _, err := read(bytes.NewReader(whole.Bytes()[:n]), func(exchange.KeySpent) {}); err == nil {
			t.Errorf("%d of %d bytes are read as a whole message", n, whole.Len())
		}
	}
}

func FuzzRead(f *testing.F) {
	var whole bytes.Buffer
	_ = write(&whole, func(visit func(exchange.KeySpent)) { visit(exchange.KeySpent{Key: 5, Ahead: 9, Named: true}) })
	f.Add(whole.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		received := 0
		n, _ := read(bytes.NewReader(b), func(exchange.KeySpent) { received++ })
		if n != received || n > len(b)/recordSize {
			t.Errorf("%d keys returned, %d received, of %d bytes", n, received, len(b))
		}
	})
}
