package keys

import (
	"fmt"
	"testing"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/slots"
)

// lined has n clients of a limit with a queue, each of which has a request that waits. The owner has answered.
func lined(n int) *Store[int] {
	s := newStore()
	for i := range n {
		s.Join(1, &Name{Key: uint64(i) + 1000, Rest: 7, KeyName: exchange.KeyName{Tenant: "a", Limit: "l",
			Client: fmt.Sprint("client-", i)}, Queue: Queue{Wait: 60e9, Requests: 100}}, &Waiter[int]{})
	}
	s.Poll(1, nil)
	s.Answer(2, &exchange.SlotReplies{Owner: 9, Echo: 1}, nil)
	return s
}

func BenchmarkAnswerBesideLines(b *testing.B) {
	s := lined(MaxPerLimit)
	b.ResetTimer()
	for i := range b.N {
		s.Answer(2+int64(i), &exchange.SlotReplies{Owner: 9, Echo: 1}, nil)
	}
}

func BenchmarkExpireBesideLines(b *testing.B) {
	s := lined(MaxPerLimit)
	b.ResetTimer()
	for range b.N {
		s.Expire(3, nil)
	}
}

func BenchmarkLeaveOfManyWaiters(b *testing.B) {
	s := newStore()
	n := Name{Key: 3, Rest: 3, Queue: Queue{Wait: 60e9, Requests: 1e6}}
	list := make([]Waiter[int], 100_000)
	for i := range list {
		s.Join(1, &n, &list[i])
	}
	b.ResetTimer()
	for i := range b.N {
		w := &list[50_000+i%1000]
		s.Leave(2, w)
		s.Join(2, &n, w)
	}
}

// A queue that is added or made longer counts for the next request.
func TestTryKnowsTheQueue(t *testing.T) {
	s := newStore()
	n := use(s)
	n.Queue = Queue{Wait: 60e9, Requests: 2}
	for range 2 {
		s.Join(3, &n, &Waiter[int]{})
	}
	n.Queue.Requests = 100
	if _, out := s.Try(4, &n); out != slots.Waits {
		t.Errorf("%v, though 98 more may wait", out)
	}
}

// Without an agent new requests are refused as cut off once the lease has run out, also at keys that are in use.
// Requests that wait already wait on.
func TestCutOffWhileInUse(t *testing.T) {
	for _, q := range []Queue{{}, {Wait: 60e9, Requests: 100}} {
		s := newStore()
		n := use(s)
		n.Queue = q
		if out := s.Join(2, &n, &Waiter[int]{}); out != slots.Waits {
			t.Fatalf("%v", out)
		}
		s.Link(false)
		for now := int64(0); now < 10e9; now += 5e6 {
			s.Expire(now, nil)
			s.Poll(now, nil)
		}
		_, out := s.Try(10e9, &n)
		if st := s.Look(10e9, &n); out != slots.CutOff || st.Next != slots.CutOff || (st.Waiting == 1) != (q.Wait > 0) {
			t.Errorf("queue %v: ten seconds after the link was lost: %v, %+v", q, out, st)
		}
		if out := s.Join(10e9, &n, &Waiter[int]{}); out != slots.CutOff || s.Stats().CutOff != 2 {
			t.Errorf("queue %v: %v, %+v", q, out, s.Stats())
		}
	}
}
