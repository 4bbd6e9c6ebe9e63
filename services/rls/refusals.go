package rls

import "sync"

// refusals are changes of the limits that were not put in force.
type refusals struct {
	mu      sync.Mutex
	refused uint64
	why     string // the last one was refused; "" if it was not
}

// note takes what came of a change, nil if it is in force. It reports whether that is news:
// a refusal for the same reason as the one before is not.
func (r *refusals) note(err error) (news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.why = ""
		return true
	}
	if err.Error() == r.why {
		return false
	}
	r.refused++
	r.why = err.Error()
	return true
}

// trouble returns the number of refused changes, and the reason of the last one; "" if it was not refused.
func (r *refusals) trouble() (refused uint64, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused, r.why
}
