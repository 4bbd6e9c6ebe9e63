package calendar

import (
	"testing"
	"time"
	_ "time/tzdata" // the zones, wherever this runs

	"github.com/titrate/titrate/control/config"
)

var zones = []string{"UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kathmandu", "Australia/Lord_Howe",
	"Pacific/Apia"} // the last one left out 2011-12-30

func periods(t *testing.T, c config.Calendar) Periods {
	t.Helper()
	p, err := NewPeriods(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A walk over ten years finds the same periods: each begins where its first day begins.
func TestPeriodsAgainstTime(t *testing.T) {
	for _, zone := range zones {
		for _, c := range []config.Calendar{{Per: config.Day, Zone: zone}, {Per: config.Week, Zone: zone, StartsOn: 1},
			{Per: config.Week, Zone: zone, StartsOn: 7}, {Zone: zone, StartsOn: 1}, {Zone: zone, StartsOn: 28},
			{Per: config.Year, Zone: zone, StartsOn: 1}, {Per: config.Year, Zone: zone, StartsOn: 4}} {
			p := periods(t, c)
			loc, _ := time.LoadLocation(zone)
			at := time.Date(2009, 12, 20, 0, 0, 0, 0, time.UTC)
			number := p.Number(at.Add(-time.Hour))
			for end := at.AddDate(10, 0, 0); at.Before(end); at = at.Add(15 * time.Minute) {
				got := p.Number(at)
				if begins(c, at.In(loc), at.Add(-15*time.Minute).In(loc)) {
					if got <= number || got > number+2 {
						t.Fatalf("%v: period %d after %d at %v", c, got, number, at.In(loc))
					}
					if start := p.Start(got); !start.Equal(at) {
						t.Fatalf("%v: period %d begins at %v, want %v", c, got, start, at.In(loc))
					}
					if n, err := p.Parse(p.Name(got)); err != nil || n != got {
						t.Fatalf("%v: %q is the name of %d and %d, %v", c, p.Name(got), got, n, err)
					}
				} else if got != number {
					t.Fatalf("%v: period %d after %d at %v", c, got, number, at.In(loc))
				}
				number = got
			}
		}
	}
}

// begins reports whether a period begins between two instants.
func begins(c config.Calendar, at, before time.Time) bool {
	if at.Year() == before.Year() && at.YearDay() == before.YearDay() {
		return false
	}
	for day := before.AddDate(0, 0, 1); ; day = day.AddDate(0, 0, 1) { // a zone may leave days out
		switch y, m, d := day.Date(); {
		case c.Per == config.Day,
			c.Per == config.Week && int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Weekday()) == int(c.StartsOn)%7,
			c.Per == config.Month && d == int(c.StartsOn),
			c.Per == config.Year && d == 1 && m == time.Month(c.StartsOn):
			return true
		case y == at.Year() && day.YearDay() >= at.YearDay() || y > at.Year():
			return false
		}
	}
}

func TestAt(t *testing.T) {
	p := periods(t, config.Calendar{Per: config.Day, Zone: "Europe/Berlin"})
	number, left, next := p.At(time.Date(2026, 10, 24, 20, 0, 0, 0, time.UTC)) // 22:00 in Berlin
	if p.Name(number) != "2026-10-24" || left != 2*time.Hour || next != 25*time.Hour {
		t.Errorf("%s, %v left, the next one takes %v", p.Name(number), left, next)
	}
	number, left, next = p.At(time.Date(2027, 3, 27, 23, 0, 0, 0, time.UTC)) // midnight of the 28th
	if p.Name(number) != "2027-03-28" || left != 23*time.Hour || next != 24*time.Hour {
		t.Errorf("%s, %v left, the next one takes %v", p.Name(number), left, next)
	}
}

func TestYears(t *testing.T) {
	fiscal := periods(t, config.Calendar{Per: config.Year, Zone: "Europe/Berlin", StartsOn: 4})
	number, left, next := fiscal.At(time.Date(2028, 3, 31, 20, 0, 0, 0, time.UTC)) // 22:00 in Berlin
	if fiscal.Name(number) != "2027-04-01" || left != 2*time.Hour || next != 365*24*time.Hour {
		t.Errorf("%s, %v left, the next one takes %v", fiscal.Name(number), left, next)
	}
	plain := periods(t, config.Calendar{Per: config.Year, Zone: "UTC", StartsOn: 1})
	number, _, next = plain.At(time.Date(2027, 12, 31, 23, 59, 59, 0, time.UTC))
	if plain.Name(number) != "2027" || next != 366*24*time.Hour {
		t.Errorf("%s, the next one takes %v", plain.Name(number), next)
	}
	for _, bad := range []config.Calendar{{Per: config.Year, Zone: "UTC"}, {Per: config.Year, Zone: "UTC", StartsOn: 13}} {
		if _, err := NewPeriods(bad); err == nil {
			t.Errorf("%v is a calendar", bad)
		}
	}
}

func TestUnknownZone(t *testing.T) {
	for _, zone := range []string{"", "Local", "Europe/Nowhere", "../etc/passwd"} {
		if _, err := NewPeriods(config.Calendar{Zone: zone, StartsOn: 1}); err == nil {
			t.Errorf("zone %q is known", zone)
		}
	}
}
