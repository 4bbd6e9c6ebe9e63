package calendar

import (
	"fmt"
	"time"

	"github.com/titrate/titrate/control/config"
)

// Periods are the periods of a calendar, numbered without a gap: the number of a period rises with time.
type Periods struct {
	of   config.Calendar
	zone *time.Location
}

// NewPeriods returns the periods of a calendar. The error is a *config.FieldError: the calendar is not valid, or this
// host knows no such zone.
func NewPeriods(c config.Calendar) (Periods, error) {
	if err := c.Validate(); err != nil {
		return Periods{}, err
	}
	zone, err := time.LoadLocation(c.Zone)
	if err != nil || c.Zone == "Local" {
		return Periods{}, &config.FieldError{Field: "quota.zone", Value: fmt.Sprintf("%q", c.Zone),
			Want: "the name of a time zone, such as Europe/Berlin"}
	}
	return Periods{c, zone}, nil
}

const secondsOfDay = 24 * 60 * 60

// monday is the day number of a Monday: 1970-01-05.
const monday = 4

// Number returns the number of the period that has an instant. Days count since 1970-01-01, months and years since
// the year 0, and weeks since the first week that began in 1970.
func (p Periods) Number(at time.Time) int64 {
	year, month, day := at.In(p.zone).Date()
	days := time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / secondsOfDay
	switch p.of.Per {
	case config.Day:
		return days
	case config.Week:
		return floor(days-monday-int64(p.of.StartsOn)+1, 7)
	case config.Year:
		if month < time.Month(p.of.StartsOn) {
			year--
		}
		return int64(year)
	default:
		n := int64(year)*12 + int64(month) - 1
		if day < int(p.of.StartsOn) {
			n--
		}
		return n
	}
}

// Start returns the instant at which a period begins: the first one of its first day, which is not midnight in some
// zones when clocks are set forward.
func (p Periods) Start(number int64) time.Time {
	year, month, day := p.date(number)
	from := time.Date(year, month, day, 0, 0, 0, 0, p.zone)
	// Of a midnight that comes twice, or not at all, time.Date may return another instant than the first of the day.
	first, last := from.Add(-3*time.Hour), from.Add(3*time.Hour)
	for last.Sub(first) > time.Second {
		if mid := first.Add(last.Sub(first) / 2).Truncate(time.Second); p.Number(mid) < number {
			first = mid
		} else {
			last = mid
		}
	}
	return last
}

// date is the first day of a period.
func (p Periods) date(number int64) (int, time.Month, int) {
	switch p.of.Per {
	case config.Day:
		return time.Unix(number*secondsOfDay, 0).UTC().Date()
	case config.Week:
		return time.Unix((number*7+monday+int64(p.of.StartsOn)-1)*secondsOfDay, 0).UTC().Date()
	case config.Year:
		return int(number), time.Month(p.of.StartsOn), 1
	default:
		year := floor(number, 12)
		return int(year), time.Month(number-year*12) + 1, int(p.of.StartsOn)
	}
}

// Name returns a period as people write it: 2026-11 of a month that starts on its first day, 2026 of a year that
// starts in January, else its first day.
func (p Periods) Name(number int64) string {
	year, month, day := p.date(number)
	name := fmt.Sprintf("%04d-%02d-%02d", year, month, day)
	switch {
	case p.of.Per == config.Month && day == 1:
		return name[:len("2026-11")]
	case p.of.Per == config.Year && month == time.January:
		return name[:len("2026")]
	}
	return name
}

// Parse returns the number of the period of that Name.
func (p Periods) Parse(name string) (int64, error) {
	for _, form := range []string{"2006-01-02", "2006-01", "2006"} {
		if at, err := time.ParseInLocation(form, name, time.UTC); err == nil {
			in := p
			in.zone = time.UTC
			return in.Number(at), nil
		}
	}
	return 0, fmt.Errorf("period %q: want its first day, such as 2026-11-01, a month, such as 2026-11, or a year", name)
}

// At returns the period of an instant, the time that is left of it, and the length of the next one.
func (p Periods) At(now time.Time) (number int64, left, next time.Duration) {
	number = p.Number(now)
	end := p.Start(number + 1)
	return number, end.Sub(now), p.Start(number + 2).Sub(end)
}

func floor(a, b int64) int64 {
	if a < 0 {
		return -((b - 1 - a) / b)
	}
	return a / b
}
