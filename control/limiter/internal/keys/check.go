package keys

import (
	"errors"
	"fmt"
)

// Check holds every slot against the table of slot.go, for tests: nobody may use the
// store meanwhile. It returns an error for each slot in a form that is none and for each
// lock that a thread holds.
func (s *Store) Check() error {
	var faults []error
	used := 0
	visit := func(at slot) {
		if at.state() != 0 {
			used++
		}
		if err := s.checkSlot(at); err != nil {
			faults = append(faults, err)
		}
	}
	for i := range s.table.buckets {
		for j := range slotsPerBucket {
			visit(slot{&s.table.buckets[i], j})
		}
	}
	s.dedicated.each(func(_ uint64, at slot) bool {
		visit(at)
		return true
	})
	if n := int(s.states.inUse.Load()); n != used {
		faults = append(faults, fmt.Errorf("%d states in use, %d slots refer to one", n, used))
	}
	return errors.Join(append(faults, s.checkLocks())...)
}

func (s *Store) checkSlot(at slot) error {
	tat, ref := at.tat().Load(), at.state()
	switch {
	case tat == locked:
		return fmt.Errorf("key %x: the TAT is still locked", at.hash())
	case ref == 0 && tat == moved:
		return fmt.Errorf("key %x: a state counts it, and it has none", at.hash())
	case ref != 0:
		if st := s.states.at(ref - 1); st == nil {
			return fmt.Errorf("key %x has the state %d, which was given back", at.hash(), ref-1)
		} else if st.hash != at.hash() || st.counting != (tat == moved) {
			return fmt.Errorf("key %x has the state of %x, counting %v, and the TAT %d",
				at.hash(), st.hash, st.counting, tat)
		}
	}
	return nil
}

// checkLocks returns an error if a thread holds a lock.
func (s *Store) checkLocks() (err error) {
	try := func(name string, l interface {
		TryLock() bool
		Unlock()
	}) {
		if !l.TryLock() {
			err = errors.Join(err, errors.New("still locked: "+name))
			return
		}
		l.Unlock()
	}
	try("the pool of states", &s.states.mu)
	try("the list of awake states", &s.states.wakes.mu)
	try("the slots outside the table", &s.dedicated.mu)
	for i := range s.states.end() {
		if st := s.states.at(i); st != nil {
			try("a state", &st.mu)
		}
	}
	for i := range s.table.buckets {
		try("a bucket", &s.table.buckets[i].insert)
	}
	return err
}
