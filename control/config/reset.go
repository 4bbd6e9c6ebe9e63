package config

import (
	"fmt"
	"slices"
	"strconv"
)

// MaxResets is the most resets of a tenant.
const MaxResets = 100

// Reset says that a client of a limit has another key since an instant, which becomes a part of the key's hash. It is
// none for a limit with a concurrency: what is in flight cannot be counted anew.
type Reset struct {
	Limit  string  `json:"limit"`
	Client string  `json:"client,omitempty"` // "" for a limit of the tenant as a whole, too
	At     Instant `json:"at_ms"`
}

// ResetOf returns when a client of a limit was reset; 0: never. O(resets).
func (t *Tenant) ResetOf(limit, client string) Instant {
	for i := range t.Resets {
		if r := &t.Resets[i]; r.Limit == limit && r.Client == client {
			return r.At
		}
	}
	return 0
}

func (t *Tenant) validateResets(path string) error {
	if len(t.Resets) > MaxResets {
		return &FieldError{join(path, "resets"), len(t.Resets), fmt.Sprint("at most ", MaxResets)}
	}
	for i, r := range t.Resets {
		at := fmt.Sprintf("resets[%d].", i)
		switch {
		case r.At <= 0 || r.At > lastInstant:
			return &FieldError{join(path, at+"time"), int64(r.At), "a time from 1970 to 2200"}
		case t.ResetOf(r.Limit, r.Client) != r.At || slices.Contains(t.Resets[:i], r):
			return &FieldError{join(path, at+"client"), strconv.Quote(r.Client), "each client of a limit once"}
		}
	}
	return nil
}
