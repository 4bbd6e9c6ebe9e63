package resource

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/wording"
)

// Timed is a quota, a limit or an override, which may have an until.
type Timed interface{ GetUntil() *timestamppb.Timestamp }

// IsOver reports whether something has an until that has come.
func IsOver(t Timed, now time.Time) bool {
	return t.GetUntil() != nil && !now.Before(t.GetUntil().AsTime())
}

// Moment is a time as documents have it.
func Moment(t *timestamppb.Timestamp) string { return t.AsTime().UTC().Format(time.RFC3339Nano) }

// Lapsed returns the field of a resource whose until has come, and a sentence about it; "" if nothing has lapsed.
// Lapsed parts do nothing, and stay until somebody takes them out.
func Lapsed(m Message, now time.Time) (field, sentence string) {
	if t, is := m.(Timed); is && IsOver(t, now) {
		return "until", fmt.Sprintf("it has lapsed (%s), and all is as without it: delete it, or give it a later until",
			Moment(t.GetUntil()))
	}
	n := 0
	l, _ := m.(*quotav1.Limit)
	for i, o := range slices.Backward(l.GetOverrides()) { // the first one last
		if IsOver(o, now) {
			n++
			field = fmt.Sprintf("overrides[%d].until", i)
			sentence = fmt.Sprintf("%s lapsed, such as that of client %s (%s): take it out, or give it a later until",
				wording.Does(n, "override", "has", "have"), wording.Quote(o.GetClient()), Moment(o.GetUntil()))
		}
	}
	return field, sentence
}
