package limiter

import (
	"slices"
	"sync"
	"sync/atomic"

	quotakeys "github.com/titrate/titrate/control/calendar/keys"
	"github.com/titrate/titrate/control/slots"
	"github.com/titrate/titrate/control/slots/keys"
)

// slotStore has the slots of this replica, and its units of quotas.
type slotStore struct {
	keys  *keys.Store[*tokenWait]
	units *quotakeys.Store[*tokenWait]
	asked atomic.Pointer[snapshot] // under which the requests that wait were last looked at

	mu     sync.Mutex
	latest Slots
	held   map[Slots][]taken     // by the name that a request has; no units
	lent   map[Slots]int64       // until when, of slots on their way to another stream
	queued map[uint64]*tokenWait // by ticket: they wait for their share
	ended  []endedWait
}

// taken records what a request has of a limit: a slot, or units that it has spent.
type taken struct {
	slot  uint64 // key
	units quotakeys.Spent
	spent bool // it is units
}

// endedWait is a wait for a slot or for units that has ended.
type endedWait struct {
	w       *tokenWait
	got     taken
	outcome slots.Outcome // not Waits
}

func (s *slotStore) addSlots(ended []keys.Ended[*tokenWait]) {
	if len(ended) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range ended {
		s.ended = append(s.ended, endedWait{one.Waiter.Of, taken{slot: one.Waiter.Key}, one.Outcome})
	}
}

func (s *slotStore) addUnits(ended []quotakeys.Ended[*tokenWait]) {
	if len(ended) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range ended {
		got := taken{units: one.Waiter.Spent, spent: true}
		s.ended = append(s.ended, endedWait{one.Waiter.Of, got, one.Outcome})
	}
}

func (s *slotStore) init(start int64, wake func()) {
	if wake == nil {
		wake = func() {}
	}
	first := uint64(max(start, 0)) &^ (1<<20 - 1)
	s.keys, s.units = keys.New[*tokenWait](first, wake), quotakeys.New[*tokenWait](first, wake)
	s.held, s.lent, s.queued = map[Slots][]taken{}, map[Slots]int64{}, map[uint64]*tokenWait{}
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

// name gives the slots of a request a name, 0 if it has none. It keeps the list.
func (s *slotStore) name(list []taken) Slots {
	list = slices.DeleteFunc(list, func(h taken) bool { return h.spent })
	if len(list) == 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest++
	s.held[s.latest] = list
	return s.latest
}

// free frees slots. The waits that this ends are kept until takeEnded.
func (s *slotStore) free(now int64, list []taken) {
	for _, h := range list {
		s.addSlots(s.keys.Free(now, h.slot, nil))
	}
}

// undo gives back what a request had which does not start. The waits that this ends are kept until takeEnded.
func (s *slotStore) undo(now int64, list []taken) {
	for _, h := range list {
		if h.spent {
			s.addUnits(s.units.Undo(now, h.units, nil))
		} else {
			s.addSlots(s.keys.Undo(now, h.slot, nil))
		}
	}
}

// take returns the slots that have a name, which they lose.
func (s *slotStore) take(name Slots) []taken {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.held[name]
	delete(s.held, name)
	delete(s.lent, name)
	return list
}

// takeUnkept returns the lent slots that nobody has kept in time.
func (s *slotStore) takeUnkept(now int64) (list []taken) {
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

func (s *slotStore) takeEnded() (ended []endedWait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended, s.ended = s.ended, nil
	return ended
}
