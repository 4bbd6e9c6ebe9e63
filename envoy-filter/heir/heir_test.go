package heir

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

func TestName(t *testing.T) {
	a := Name("gw-1", "/run/a.sock")
	if a != Name("gw-1", "/run/a.sock") || a == Name("gw-2", "/run/a.sock") || a == Name("gw-1", "/run/b.sock") || len(a) > 100 {
		t.Error(a)
	}
}

// A chain of three generations, each of which has all that those before had.
func TestHandOver(t *testing.T) {
	name := Name("test", t.TempDir())
	take := func(to *[]exchange.KeySpent) func(exchange.KeySpent) {
		return func(s exchange.KeySpent) { *to = append(*to, s) }
	}
	var none []exchange.KeySpent
	if n, err := Ask(name, take(&none)); n != 0 || err != nil {
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
			if _, err := Ask(name, take(&got)); err != nil {
				t.Fatal(err)
			}
		}
		return got
	}
	stopParent := serve(first)
	second := ask()
	if !slices.Equal(second, first) {
		t.Errorf("inherited %v of %v", second, first)
	}
	stopChild := serve(append(second, exchange.KeySpent{Key: 7, Ahead: 1})) // while the parent lives on
	if third := ask(); len(third) != 3 || third[2].Key != 7 {
		t.Errorf("the third inherits %v", third)
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
	if err := write(&whole, func(visit func(exchange.KeySpent)) { visit(exchange.KeySpent{Key: 5, Ahead: 9}) }); err != nil {
		t.Fatal(err)
	}
	for n := range whole.Len() {
		if _, err := read(bytes.NewReader(whole.Bytes()[:n]), func(exchange.KeySpent) {}); err == nil {
			t.Errorf("%d of %d bytes are taken as whole", n, whole.Len())
		}
	}
}

func FuzzRead(f *testing.F) {
	var whole bytes.Buffer
	_ = write(&whole, func(visit func(exchange.KeySpent)) { visit(exchange.KeySpent{Key: 5, Ahead: 9, Named: true}) })
	f.Add(whole.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		taken := 0
		n, _ := read(bytes.NewReader(b), func(exchange.KeySpent) { taken++ })
		if n != taken || n > len(b)/record {
			t.Errorf("%d keys said, %d taken, of %d bytes", n, taken, len(b))
		}
	})
}
