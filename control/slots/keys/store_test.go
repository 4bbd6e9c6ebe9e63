package keys

import (
	"fmt"
	"testing"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/slots"
)

func newStore() *Store[int] {
	s := New[int](0, func() {})
	s.SetOwners(1, exchange.Owners{View: 1, List: []exchange.Owner{{Hash: 1, Life: 9}}})
	s.Link(true)
	return s
}

// Clients beyond MaxPerLimit share one key of their limit, and other limits have their own keys.
func TestInventedNamesShareAKey(t *testing.T) {
	s := newStore()
	waiters := make([]Waiter[int], MaxPerLimit+100)
	for i := range waiters {
		n := Name{Key: uint64(i) + 1000, Rest: 7, KeyName: exchange.KeyName{Tenant: "a", Limit: "l",
			Client: fmt.Sprint("client-", i)}}
		if out := s.Join(1, &n, &waiters[i]); out != slots.Waits {
			t.Fatalf("client %d: %v", i, out)
		}
		if shared := waiters[i].Key == 7; shared != (i >= MaxPerLimit) {
			t.Fatalf("client %d has key %d", i, waiters[i].Key)
		}
	}
	other := Name{Key: 3, Rest: 3, KeyName: exchange.KeyName{Tenant: "b", Limit: "l"}}
	var w Waiter[int]
	if s.Join(1, &other, &w); w.Key != 3 {
		t.Errorf("another limit's client has key %d", w.Key)
	}
	if n := s.Stats().Keys; n != MaxPerLimit+2 {
		t.Errorf("%d keys", n)
	}
	asks, _, _ := s.Poll(1, nil)
	for _, a := range asks[0].List {
		if a.Key == 7 && a.Client != "" {
			t.Errorf("the shared key has the name of client %q", a.Client)
		}
	}
	for i := range waiters {
		s.Leave(2, &waiters[i])
	}
	if s.Leave(2, &w); len(s.lines) != 0 {
		t.Errorf("%d lines are left", len(s.lines))
	}
}

// A slot that is put back is no request that ended: the next one has it, and the mean time in flight stays.
func TestUndo(t *testing.T) {
	s := newStore()
	n := Name{Key: 3, Rest: 3}
	var first, second Waiter[int]
	s.Join(1, &n, &first)
	asks, _, _ := s.Poll(1, nil)
	a := asks[0].List[0]
	s.Answer(2, &exchange.SlotReplies{Owner: 9, Echo: 1, List: []exchange.SlotReply{{Key: 3, Reply: slots.Reply{Owner: 9,
		Session: a.Session, Number: 1, Seen: a.Number, Granted: 1}}}}, nil)
	if st := s.Look(3, &n); st.Used != 1 || st.Idle != 0 || st.Next != slots.Waits {
		t.Fatalf("%+v", st)
	}
	s.Join(3, &n, &second)
	ended := s.Undo(4, 3, nil)
	if len(ended) != 1 || ended[0].Waiter != &second || ended[0].Outcome != slots.Admitted {
		t.Fatalf("%+v", ended)
	}
	if st := s.Stats(); st.Used != 1 || st.Started != 1 {
		t.Errorf("%+v", st)
	}
}
