package simulate

import (
	"context"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/simulate/scenario"
	"github.com/titrate/titrate/lab/simulate/system"
	"github.com/titrate/titrate/lab/simulate/traffic"
)

// watched checks that a system keeps the rules of package system.
type watched struct {
	t        *testing.T
	played   system.System
	now      time.Duration // of the call that is being made
	last     time.Duration // answer
	offered  map[int]time.Duration
	answered int
}

func watch(t *testing.T, make system.Maker) (system.Maker, *watched) {
	w := &watched{t: t, offered: map[int]time.Duration{}}
	return func(s system.Stage) (system.System, error) {
		answer := s.Answer
		s.Answer = func(a system.Answer) { w.answer(a); answer(a) }
		var err error
		w.played, err = make(s)
		return w, err
	}, w
}

func (w *watched) answer(a system.Answer) {
	asked, open := w.offered[a.ID]
	switch {
	case !open:
		w.t.Errorf("request %d: an answer too many: %+v", a.ID, a)
	case a.At < asked || a.At < w.last || a.At > w.now:
		w.t.Errorf("request %d of %v: answered at %v, after %v, in a call for %v", a.ID, asked, a.At, w.last, w.now)
	case a.Fate >= system.Fates || (a.Fate == system.Rejected) != (a.Reason != 0):
		w.t.Errorf("request %d: %+v", a.ID, a)
	}
	delete(w.offered, a.ID)
	w.last = max(w.last, a.At)
	w.answered++
}

func (w *watched) Offer(id int, r *traffic.Request) {
	w.now, w.offered[id] = r.At, r.At
	w.played.Offer(id, r)
}

func (w *watched) Happen(e *scenario.Event) {
	w.now = e.At
	w.played.Happen(e)
}

func (w *watched) Advance(now time.Duration) {
	w.now = now
	w.played.Advance(now)
}

// Every system keeps the rules of package system, with all kinds of events.
func TestConformance(t *testing.T) {
	t.Parallel()
	all := Options{Baselines: Baselines()}
	contenders, err := all.contenders()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range contenders {
		t.Run(c.name, func(t *testing.T) {
			s := eventful()
			report := progress{passes: 2}
			reference, err := rehearse(context.Background(), s, &report)
			if err != nil {
				t.Fatal(err)
			}
			make, w := watch(t, c.make)
			x, err := perform(context.Background(), s, contender{c.name, make}, reference, false, &report)
			if err != nil {
				t.Fatal(err)
			}
			conserved(t, &x)
			if x.Requests.Waiting != len(w.offered) || w.answered == 0 {
				t.Errorf("%d requests wait, the result says %d; %d answers", len(w.offered), x.Requests.Waiting,
					w.answered)
			}
		})
	}
}
