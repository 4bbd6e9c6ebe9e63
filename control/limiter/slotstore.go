package limiter

import (
	"sync"

	"github.com/titrate/titrate/control/slots/keys"
)

// slotStore has the slots of this replica.
type slotStore struct {
	keys  *keys.Store[*tokenWait]
	asked *snapshot // under which the requests that wait were last looked at; the ticker's

	mu     sync.Mutex
	latest Slots
	held   map[Slots][]uint64    // keys, by the name that a request has
	lent   map[Slots]int64       // until when, of slots on their way to another stream
	queued map[uint64]*tokenWait // by ticket: they wait for their share
	ended  []keys.Ended[*tokenWait]
}

func (s *slotStore) init(start int64, wake func()) {
	if wake == nil {
		wake = func() {}
	}
	s.keys = keys.New[*tokenWait](uint64(max(start, 0))&^(1<<20-1), wake)
	s.held, s.lent, s.queued = map[Slots][]uint64{}, map[Slots]int64{}, map[uint64]*tokenWait{}
}

// queue notes that a request waits in the queue of its flow, and needs slots when it is released.
func (s *slotStore) queue(w *tokenWait) {
	if len(w.route.slots) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queued[w.ticket] = w
}

func (s *slotStore) unqueue(ticket uint64) *tokenWait {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queued) == 0 {
		return nil
	}
	w := s.queued[ticket]
	delete(s.queued, ticket)
	return w
}

// name gives the slots of a request a name.
func (s *slotStore) name(list []uint64) Slots {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest++
	s.held[s.latest] = list
	return s.latest
}

// free frees slots. The waits that this ends are kept until takeEnded.
func (s *slotStore) free(now int64, list []uint64) {
	for _, key := range list {
		if ended := s.keys.Free(now, key, nil); len(ended) > 0 {
			s.addEnded(ended)
		}
	}
}

// undo gives back slots that a request had which does not start. The waits that this ends are kept until takeEnded.
func (s *slotStore) undo(now int64, list []uint64) {
	for _, key := range list {
		if ended := s.keys.Undo(now, key, nil); len(ended) > 0 {
			s.addEnded(ended)
		}
	}
}

func (s *slotStore) addEnded(ended []keys.Ended[*tokenWait]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, ended...)
}

// take returns the slots that have a name, which they lose.
func (s *slotStore) take(name Slots) []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.held[name]
	delete(s.held, name)
	delete(s.lent, name)
	return list
}

// takeUnkept returns the lent slots that nobody has kept in time.
func (s *slotStore) takeUnkept(now int64) (list []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, until := range s.lent {
		if now >= until {
			list = append(list, s.held[name]...)
			delete(s.held, name)
			delete(s.lent, name)
		}
	}
	return list
}

func (s *slotStore) takeEnded() (ended []keys.Ended[*tokenWait]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended, s.ended = s.ended, nil
	return ended
}
