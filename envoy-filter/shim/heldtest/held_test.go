package heldtest

import "testing"

// The slots of an event belong to one side, whatever the order of ticker and worker, and all is freed once.
func TestSlotsHaveOneOwner(t *testing.T) {
	for name, c := range map[string]struct {
		when uint32
		want Outcome
	}{
		"taken before the ticker is done":   {Takes, Outcome{Dropped: false, Slots: 7, Deleted: 1}},
		"taken afterwards":                  {TakesLater, Outcome{Dropped: false, Slots: 7, Deleted: 1}},
		"the stream has ended":              {Ended, Outcome{Dropped: true, Slots: 0, Deleted: 1}},
		"it ends before the ticker is done": {Ends, Outcome{Dropped: true, Slots: 0, Deleted: 1}},
		"it ends before the event comes":    {EndsLater, Outcome{Dropped: false, Slots: 7, Deleted: 1}},
	} {
		if got := Release(c.when); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
