package limiter

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

// slotStress is one engine whose workers, ticker and link are threads of their own.
type slotStress struct {
	t     *testing.T
	e     *Engine
	began time.Time
	next  atomic.Uint64

	mu     sync.Mutex
	waits  map[uint64]Handle // tickets that were neither ended nor taken back
	early  map[uint64]Event  // that came before Enqueue returned
	flying []Slots
	ends   [3]int // admitted, refused
}

func (s *slotStress) now() int64 { return sec + int64(time.Since(s.began)) }

func (s *slotStress) take(events []Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ev := range events {
		if _, waits := s.waits[ev.Ticket]; !waits {
			if _, twice := s.early[ev.Ticket]; twice {
				s.t.Errorf("two events of ticket %d", ev.Ticket)
			}
			s.early[ev.Ticket] = ev
			continue
		}
		delete(s.waits, ev.Ticket)
		s.end(ev.Outcome)
	}
}

// end notes the end of a request. mu is locked.
func (s *slotStress) end(o Outcome) {
	if s.ends[o.Verdict]++; o.Verdict == Admit && o.Slots != 0 {
		s.flying = append(s.flying, o.Slots)
	}
}

func (s *slotStress) ask(r *rand.Rand) {
	q := Request{Tenant: "a", Client: string(rune('a' + r.IntN(6))), Pool: "api"}
	out := s.e.Decide(s.now(), &q)
	if out.Verdict != Wait {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.end(out)
		return
	}
	ticket := s.next.Add(1)
	out, h := s.e.Enqueue(s.now(), &q, ticket)
	s.mu.Lock()
	defer s.mu.Unlock()
	if ev, came := s.early[ticket]; came {
		delete(s.early, ticket)
		if out.Verdict != Wait {
			s.t.Errorf("an answer and an event")
		}
		s.end(ev.Outcome)
	} else if out.Verdict == Wait {
		s.waits[ticket] = h
	} else {
		s.end(out)
	}
}

// leave cancels a request, and free ends one.
func (s *slotStress) leave() {
	s.mu.Lock()
	ticket, handle := uint64(0), Handle(0)
	for ticket, handle = range s.waits {
		break
	}
	s.mu.Unlock()
	if ticket != 0 && s.e.Cancel(s.now(), handle) {
		s.mu.Lock()
		if _, waits := s.waits[ticket]; !waits {
			s.t.Errorf("ticket %d was ended and taken back", ticket)
		}
		delete(s.waits, ticket)
		s.mu.Unlock()
	}
}

func (s *slotStress) free(r *rand.Rand) {
	s.mu.Lock()
	var one Slots
	if n := len(s.flying); n > 0 {
		i := r.IntN(n)
		one, s.flying[i] = s.flying[i], s.flying[n-1]
		s.flying = s.flying[:n-1]
	}
	s.mu.Unlock()
	if one != 0 {
		s.take(s.e.FreeSlots(s.now(), one, nil))
	}
}

func stressConfig(revision int64, each config.Mode) *config.Config {
	queue := func(wait time.Duration, most int) config.Queue {
		return config.Queue{Law: config.DropTail, MaxWait: wait, MaxRequests: most, DelayTarget: time.Second}
	}
	c := simple(20000, queue(50*time.Millisecond, 1000),
		config.Limit{Name: "all", Concurrency: 10, PerTenant: true, Queue: queue(40*time.Millisecond, 20)},
		config.Limit{Name: "each", Concurrency: 3, Mode: each, Queue: queue(30*time.Millisecond, 10)},
		config.Limit{Name: "rate", Rate: 2000, Burst: 20, Queue: queue(20*time.Millisecond, 10)})
	c.Revision = revision
	return c
}

// With all threads at once each ticket is ended once, and at the end all slots are free.
func TestSlotsUnderStress(t *testing.T) {
	f := newSlotFleet(t, 1, stressConfig(1, config.Enforce))
	s := &slotStress{t: t, e: f.engines[0], began: time.Now(), waits: map[uint64]Handle{}, early: map[uint64]Event{}}
	var all sync.WaitGroup
	stop := make(chan struct{})
	every := func(pause time.Duration, do func(r *rand.Rand)) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(pause)))
			for {
				select {
				case <-stop:
					return
				default:
					do(r)
					time.Sleep(pause)
				}
			}
		})
	}
	link := func(*rand.Rand) {
		f.now = s.now()
		var list []exchange.SlotReply
		asks, _, _ := s.e.PollSlots(f.now, nil)
		for _, m := range asks {
			f.echo[0] = m.Sent
			for _, a := range m.List {
				f.ask(0, &a)
			}
		}
		for key, o := range f.owners {
			if due := o.Due(); due != 0 && due <= f.now {
				o.Tick(f.now, slotOutbox{f, key})
			}
		}
		list, f.answers[0] = f.answers[0], nil
		s.take(s.e.AnswerSlots(f.now, &exchange.SlotReplies{Owner: slotLife, Echo: f.echo[0], List: list}, nil))
	}
	tick := func(*rand.Rand) { s.take(s.e.Tick(s.now(), nil)) }
	revision := int64(1)
	every(30*time.Microsecond, s.ask)
	every(31*time.Microsecond, s.ask)
	every(32*time.Microsecond, s.ask)
	every(200*time.Microsecond, s.free)
	every(201*time.Microsecond, s.free)
	every(300*time.Microsecond, func(*rand.Rand) { s.leave() })
	every(301*time.Microsecond, func(*rand.Rand) { s.leave() })
	every(100*time.Microsecond, link)
	every(time.Millisecond, tick)
	every(20*time.Millisecond, func(*rand.Rand) {
		revision++
		mustApply(t, s.e, stressConfig(revision, config.Mode(revision%3)))
	})
	time.Sleep(time.Second)
	close(stop)
	all.Wait()
	for range 400 {
		for len(s.flying) > 0 {
			s.free(rand.New(rand.NewPCG(1, 1)))
		}
		link(nil)
		tick(nil)
		time.Sleep(time.Millisecond)
	}
	st := s.e.slots.keys.Stats()
	if st.Used != 0 || len(s.waits) != 0 || len(s.early) != 0 || s.e.waiting.Load() != 0 || len(s.e.slots.held) != 0 ||
		len(s.e.slots.queued) != 0 {
		t.Errorf("%+v; %d wait, %d events too many, engine's count %d, %d named, %d queued", st, len(s.waits),
			len(s.early), s.e.waiting.Load(), len(s.e.slots.held), len(s.e.slots.queued))
	}
	if n, empty := len(s.e.places.all), len(s.e.places.empty); n != empty {
		t.Errorf("%d of %d places are kept", n-empty, n)
	}
	t.Logf("%v %+v", s.ends, st)
}
