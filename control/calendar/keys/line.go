package keys

import (
	"maps"
	"slices"

	"github.com/titrate/titrate/control/calendar"
)

// Waiter is a request that waits for units of one key at a time.
type Waiter[W any] struct {
	Of    W
	Spent       // Cost is the caller's; the rest is set by Join, or when the wait ends
	since int64 // when it began to wait
}

// Ended is a wait that has ended.
type Ended[W any] struct {
	Waiter  *Waiter[W]
	Outcome calendar.Outcome // not Waits
}

// Join spends units, or has the request wait in the line of the key.
func (s *Store[W]) Join(now int64, n *Name, w *Waiter[W]) calendar.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, e := s.find(n)
	w.Key, w.since = key, now
	switch {
	case s.isCutOff():
		return s.count(calendar.CutOff)
	case e == nil:
		e = s.begin(now, key, n)
	}
	out := e.g.Take(now, w.Cost)
	if s.count(out); out == calendar.Waits {
		s.counts.Waited++
		e.line = append(e.line, w)
		s.lines[key] = e
	}
	w.Period = e.g.Period()
	s.poll(now, e)
	return out
}

// Leave ends the wait of a request that has gone; false: it has ended before.
func (s *Store[W]) Leave(now int64, w *Waiter[W]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.keys[w.Key]
	if e == nil {
		return false
	}
	i := slices.Index(e.line, w)
	if i < 0 {
		return false
	}
	e.line = slices.Delete(e.line, i, i+1)
	e.g.Leave(now, w.Cost, false)
	s.poll(now, e)
	return true
}

// settle ends the waits of requests for which there are units, or for which there will be none.
func (s *Store[W]) settle(now int64, e *entry[W], ended []Ended[W]) []Ended[W] {
	for len(e.line) > 0 {
		w := e.line[0]
		out := e.g.Retry(now, w.Cost)
		if out == calendar.Waits {
			break
		}
		w.Period = e.g.Period()
		ended = append(ended, Ended[W]{w, s.count(out)})
		e.line = e.line[1:]
	}
	s.poll(now, e)
	return ended
}

// Waiting returns the requests that wait.
func (s *Store[W]) Waiting() (all []*Waiter[W]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.lines)) {
		all = append(all, s.lines[key].line...)
	}
	return all
}

// Expire appends the waits that have lasted for as long as they may.
func (s *Store[W]) Expire(now int64, ended []Ended[W]) []Ended[W] {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.lines)) {
		e := s.lines[key]
		for len(e.line) > 0 && now-e.line[0].since >= calendar.MaxWait {
			e.g.Leave(now, e.line[0].Cost, true)
			ended = append(ended, Ended[W]{e.line[0], s.count(calendar.CutOff)})
			e.line = e.line[1:]
		}
		s.poll(now, e)
	}
	return ended
}

// Drain ends all waits, as CutOff.
func (s *Store[W]) Drain(now int64, ended []Ended[W]) []Ended[W] {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.lines)) {
		e := s.lines[key]
		for _, w := range e.line {
			e.g.Leave(now, w.Cost, false)
			ended = append(ended, Ended[W]{w, calendar.CutOff})
		}
		e.line = nil
		s.poll(now, e)
	}
	return ended
}
