package booking

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
)

// Nobody asks for thresholds, and their records go.
func TestRemovedRecordsAreNotHot(t *testing.T) {
	of := config.Calendar{Per: config.Day, Zone: "UTC"}
	b := New(func(Key) (Terms, bool) { return Terms{Amount: calendar.Unit, Calendar: of, Soft: []float64{.5}}, true })
	one := b.add(account{Key: Key{"acme", "daily", "k"}, Calendar: of, Period: 20785})
	one.amount, one.soft = calendar.Unit, []float64{.5}
	one.base.Settled = calendar.Unit
	for _, day := range []int{28, 29, 30, 31, 32, 33} {
		for shard := range Shards {
			b.Tidy(time.Date(2026, 11, day, 12, 0, 0, 0, time.UTC), shard)
		}
		if day == 28 && len(b.hot) != 1 {
			t.Error("its threshold is not reached")
		}
	}
	if len(b.records) != 0 || len(b.hot) != 0 {
		t.Errorf("%d records, %d are hot", len(b.records), len(b.hot))
	}
}

// A calendar that is configured no longer is known while it has records, and then forgotten.
func TestCalendarsAreForgotten(t *testing.T) {
	of := config.Calendar{Per: config.Day, Zone: "UTC"}
	b := New(func(Key) (Terms, bool) { return Terms{}, false })
	b.Configure([]config.Calendar{of, {Per: config.Week, Zone: "UTC", StartsOn: 1}})
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	b.Announce(at)
	b.add(account{Key: Key{"acme", "daily", "k"}, Calendar: of, Period: 20785})
	b.Configure(nil)
	for round, want := range []int{2, 1, 1} {
		for shard := range Shards {
			b.Tidy(at, shard)
		}
		if len(b.calendars.of) != want {
			t.Errorf("round %d: %d calendars, want %d", round, len(b.calendars.of), want)
		}
	}
	for range 4 {
		for shard := range Shards {
			b.Tidy(at.AddDate(0, 0, 9), shard)
		}
	}
	if len(b.calendars.of) != 0 {
		t.Errorf("%d calendars without records are kept", len(b.calendars.of))
	}
}

// Where records are many, final ones of all periods but the last make room.
func TestFinalRecordsMakeRoom(t *testing.T) {
	of := config.Calendar{Per: config.Day, Zone: "UTC"}
	b := New(func(Key) (Terms, bool) { return Terms{}, false })
	b.most = 32
	for period := range int64(4) {
		for n := range 8 {
			one := b.add(account{Key: Key{"acme", "daily", string(rune('a' + n))}, Calendar: of, Period: 20782 + period})
			one.final = period < 3
		}
	}
	for shard := range Shards {
		b.Tidy(time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC), shard)
	}
	// Below 30 of 32 nothing is removed any more.
	if len(b.records) != 29 || b.counts.Dropped != 3 {
		t.Errorf("%d records, %+v", len(b.records), b.counts)
	}
	for at := range b.records {
		if at.Period >= 20784 {
			delete(b.records, at)
		}
	}
	if len(b.records) != 13 {
		t.Errorf("%d records of the two oldest periods, want 13", len(b.records))
	}
}
