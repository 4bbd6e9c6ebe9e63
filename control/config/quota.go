package config

import (
	"cmp"
	"slices"
	"strconv"
)

// CalendarQuota is the cost that a key of a limit may use in each period of a calendar.
type CalendarQuota struct {
	Amount   float64  `json:"amount"` // cost units, from 1 to MaxRate
	Calendar Calendar `json:"calendar"`
	// Soft are the parts of the amount at which a webhook says how much is used.
	Soft   []float64 `json:"soft,omitempty"`
	OnLoss QuotaLoss `json:"on_loss,omitempty"`
}

// Calendar says when periods begin. Equal calendars have the same periods.
type Calendar struct {
	Per  Per    `json:"per"`
	Zone string `json:"zone"` // IANA name of a time zone; needed
	// StartsOn is the first day: of a Week 1, Monday, to 7; of a Month 1 to 28; 0 of a Day. Of a Year it is the
	// first month, 1 to 12.
	StartsOn uint8 `json:"starts_on,omitempty"`
}

// Bounds of a quota.
const (
	// MaxSoft is the most thresholds.
	MaxSoft = 8
	// MaxZone is the most bytes of a zone's name.
	MaxZone = 64
)

// weekdays are names of the first day of a week.
var weekdays = []string{"MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"}

// NewCalendar returns the calendar of the words of a document, "" being the default. The error is a *FieldError.
func NewCalendar(per Per, zone, startsOn string) (Calendar, error) {
	c := Calendar{Per: per, Zone: cmp.Or(zone, "UTC")}
	if per != Day {
		c.StartsOn = 1
	}
	if startsOn == "" {
		return c, nil
	}
	c.StartsOn = 0
	switch day, err := strconv.ParseUint(startsOn, 10, 8); {
	case per == Week:
		c.StartsOn = uint8(slices.Index(weekdays, startsOn) + 1)
	case (per == Month || per == Year) && err == nil:
		c.StartsOn = uint8(day)
	}
	if c.StartsOn == 0 {
		return c, c.startsFault("", startsOn)
	}
	return c, c.validate("")
}

// Start is the first day as a document has it, "" for none.
func (c Calendar) Start() string {
	switch {
	case c.Per == Week && c.StartsOn >= 1 && int(c.StartsOn) <= len(weekdays):
		return weekdays[c.StartsOn-1]
	case c.Per == Month, c.Per == Year:
		return strconv.Itoa(int(c.StartsOn))
	}
	return ""
}

func (c Calendar) startsFault(path string, given any) error {
	want := map[Per]string{Day: "none for a DAY", Week: "MON to SUN for a WEEK", Month: "1 to 28 for a MONTH",
		Year: "1 to 12, a month, for a YEAR"}
	return &FieldError{join(path, "quota.starts_on"), given, want[c.Per]}
}

// Validate reports the first field that is wrong, as a *FieldError. Whether there is such a zone is another matter:
// gateways do not know zones.
func (c Calendar) Validate() error { return c.validate("") }

func (c Calendar) validate(path string) error {
	if err := pers.check(path, uint8(c.Per)); err != nil {
		return err
	}
	first, last := uint8(1), map[Per]uint8{Day: 0, Week: 7, Month: 28, Year: 12}[c.Per]
	if c.StartsOn < min(first, last) || c.StartsOn > last {
		return c.startsFault(path, c.StartsOn)
	}
	if c.Zone == "" || len(c.Zone) > MaxZone {
		return &FieldError{join(path, "quota.zone"), strconv.Quote(c.Zone),
			"the name of a time zone, such as Europe/Berlin"}
	}
	return nil
}

func (q *CalendarQuota) validate(path string) error {
	if err := amountFault(join(path, "quota.amount"), q.Amount); err != nil {
		return err
	}
	if err := losses.check(path, uint8(q.OnLoss)); err != nil {
		return err
	}
	for i, part := range q.Soft {
		if !(part > 0 && part <= 1) || i > 0 && part <= q.Soft[i-1] || i >= MaxSoft {
			return &FieldError{join(path, "quota.soft"), q.Soft, "at most 8 parts above 0, at most 1, in rising order"}
		}
	}
	return q.Calendar.validate(path)
}

func amountFault(field string, amount float64) error {
	if !(amount >= 1 && amount <= MaxRate) {
		return &FieldError{field, amount, "a cost from 1 to 1e12"}
	}
	return nil
}

// validateAmounts refuses overrides without an amount beside a quota, and amounts without one.
func (l *Limit) validateAmounts(path string) error {
	for client, rb := range l.Overrides {
		at := join(path, "overrides["+client+"].amount")
		switch {
		case l.Quota == nil && rb.Amount != 0:
			return &FieldError{at, rb.Amount, "none: the limit has no quota"}
		case l.Quota != nil:
			if err := rb.ValidateAmount(join(path, "overrides["+client+"]")); err != nil {
				return err
			}
		}
	}
	return nil
}

// ValidateAmount reports the first number that is wrong beside an amount, at a path, as a *FieldError.
func (rb RateBurst) ValidateAmount(path string) error {
	if err := amountFault(join(path, "amount"), rb.Amount); err != nil {
		return err
	}
	if rb.Rate != 0 || rb.Burst != 0 || rb.Concurrency != 0 {
		return &FieldError{join(path, "rate"), rb.Rate, "none beside an amount"}
	}
	return nil
}

// validateQuota refuses the fields of other kinds of limits beside a quota.
func (l *Limit) validateQuota(path string) error {
	if err := l.validateAmounts(path); err != nil {
		return err
	}
	switch {
	case l.Quota == nil:
		return nil
	case l.Rate != 0:
		return &FieldError{join(path, "rate"), l.Rate, "none beside a quota: make another limit for the rate"}
	case l.Burst != 0:
		return &FieldError{join(path, "burst"), l.Burst, "none beside a quota"}
	case l.Concurrency != 0:
		return &FieldError{join(path, "concurrency"), l.Concurrency, "none beside a quota: make another limit"}
	case l.Queued():
		return &FieldError{join(path, "queue.aqm"), l.Queue.Law, "POLICE for a limit with a quota"}
	case l.Strict:
		return &FieldError{join(path, "strict"), l.Strict, "false for a limit with a quota"}
	case l.Precision != Unstated:
		return &FieldError{join(path, "precision"), l.Precision, "none for a limit with a quota"}
	}
	return l.Quota.validate(path)
}

// AmountOf returns the amount of a client's quota; the limit has one.
func (l *Limit) AmountOf(client string, at Instant) float64 {
	if rb, found := l.OverrideAt(client, at); found {
		return rb.Amount
	}
	return l.Quota.Amount
}
