package keys

import (
	"fmt"
	"strings"
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

// use has a request in flight with the one slot of a key.
func use(s *Store[int]) (n Name) {
	n = Name{Key: 3, Rest: 3}
	var w Waiter[int]
	s.Join(1, &n, &w)
	asks, _, _ := s.Poll(1, nil)
	a := asks[0].List[0]
	s.Answer(2, &exchange.SlotReplies{Owner: 9, Echo: 1, List: []exchange.SlotReply{{Key: 3, Reply: slots.Reply{Owner: 9,
		Session: a.Session, Number: 1, Seen: a.Number, Granted: 1}}}}, nil)
	return n
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
	n := use(s)
	var second Waiter[int]
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

// invent has n clients of limit 7 wait for slots at a time, and give up.
func invent(s *Store[int], now int64, n int, client func(int) string) (waiters []Waiter[int]) {
	waiters = make([]Waiter[int], n)
	for i := range waiters {
		s.Join(now, &Name{Key: uint64(i) + 1000, Rest: 7, KeyName: exchange.KeyName{Tenant: "a", Limit: "l",
			Client: client(i)}}, &waiters[i])
	}
	for i := range waiters {
		s.Leave(now+1, &waiters[i])
	}
	return waiters
}

func number(i int) string { return fmt.Sprint("client-", i) }

// A key whose owner never answers is forgotten, so that it takes no other client's place. Its owner knows nothing of it
// either, and no other owner waits for it.
func TestUnansweredKeysAreForgotten(t *testing.T) {
	s := newStore()
	invent(s, 1, MaxPerLimit, number)
	for now := int64(1); now < slots.ExpireAfter+1e9; now += 1e8 {
		s.Poll(now, nil)
	}
	if n := s.Stats().Keys; n != 0 {
		t.Errorf("%d keys are kept", n)
	}
}

// A key with requests in flight whose owner never answers does not keep the gateway from having registered.
func TestUnansweredKeysHaveRegistered(t *testing.T) {
	s := newStore()
	use(s)
	s.SetOwners(1e9, exchange.Owners{View: 2, List: []exchange.Owner{{Hash: 2, Life: 10}}})
	at := int64(0)
	for now := int64(1e9); now < 8e9 && at == 0; now += 1e8 {
		if _, _, registered := s.Poll(now, nil); registered == 2 {
			at = now
		}
	}
	if at < slots.LeaseFor+slots.ExpireAfter || at > 7e9 { // the lease ends first, which begins another session
		t.Errorf("registered at %d", at)
	}
}

// A name that does not fit a message would never reach the owner: such clients have the shared key of their limit.
func TestLongNamesShareAKey(t *testing.T) {
	s := newStore()
	long := strings.Repeat("x", exchange.MaxKeyName-1)
	for _, w := range invent(s, 1, 3, func(int) string { return long }) {
		if w.Key != 7 {
			t.Errorf("key %d", w.Key)
		}
	}
}

// While no agent carries messages none are made, and the link's return sends one of each key.
func TestNothingGrowsWithoutALink(t *testing.T) {
	s := newStore()
	n := use(s)
	s.Link(false)
	for now := int64(1e9); now < 100e9; now += 1e8 {
		s.Join(now, &n, &Waiter[int]{})
		s.Expire(now+slots.MaxWait, nil)
		if _, next, _ := s.Poll(now, nil); next != 0 || len(s.out) != 0 || s.due.Next() != 0 {
			t.Fatalf("at %d: %d messages wait, the next is due at %d", now, len(s.out), next)
		}
	}
	s.Link(true)
	if asks, _, _ := s.Poll(101e9, nil); len(asks) != 1 || len(asks[0].List) != 1 {
		t.Errorf("%+v", asks)
	}
}

// A tenant that invents names in many limits leaves room for another tenant.
func TestATenantHasAPartOfTheRoom(t *testing.T) {
	s := newStore()
	join := func(tenant string, limit, client uint64) uint64 {
		var w Waiter[int]
		s.Join(1, &Name{Key: limit<<32 + client + 1000, Rest: limit, KeyName: exchange.KeyName{Tenant: tenant,
			Limit: fmt.Sprint(limit), Client: fmt.Sprint(client)}}, &w)
		return w.Key
	}
	for limit := range uint64(20) {
		for client := range uint64(MaxPerLimit) {
			join("many", limit, client)
		}
	}
	if n := s.Stats().Keys; n > maxKeys/2+100 {
		t.Errorf("one tenant has %d keys", n)
	}
	if join("other", 99, 1) == 99 {
		t.Error("another tenant's client has no key of its own")
	}
}
