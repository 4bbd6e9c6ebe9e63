package linkserver

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
)

// slow takes claims only when it may.
type slow struct {
	nobody
	may  chan bool
	seen chan link.Message
}

func (s slow) Received(_ *Conn, m link.Message) {
	if _, is := m.(*exchange.Claims); is {
		<-s.may
	}
	s.seen <- m
}

// A question about tokens does not wait until thousands of claims are taken in. Everything else keeps its order.
func TestQuestionsPassLongClaims(t *testing.T) {
	h := slow{may: make(chan bool), seen: make(chan link.Message, 100)}
	l := (&Server{h: h}).newLane(t.Context(), &Conn{})
	take := func(m link.Message) {
		if err := l.take(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	next := func() link.Message {
		select {
		case m := <-h.seen:
			return m
		case <-time.After(10 * time.Second):
			t.Fatal("nothing is handled")
			return nil
		}
	}
	take(&exchange.Claims{Withdrawn: make([]uint64, 2*claimsAtOnce+1)})
	take(&exchange.Report{})
	take(&exchange.Claims{Withdrawn: []uint64{1}})
	take(&exchange.TokenRequests{})
	if m, is := next().(*exchange.TokenRequests); !is {
		t.Fatalf("%T was handled first", m)
	}
	close(h.may)
	for _, want := range []int{claimsAtOnce, claimsAtOnce, 1, -1, 1} {
		got := -1
		if m, is := next().(*exchange.Claims); is {
			got = len(m.Withdrawn)
		}
		if got != want {
			t.Fatalf("%d claims, want %d", got, want)
		}
	}
	l.close()
}
