package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
)

// quotaJSON is Quota with an optional Max, since JSON has no infinity.
type quotaJSON struct {
	Pool       string   `json:"pool"`
	Guaranteed float64  `json:"guaranteed,omitempty"`
	Max        *float64 `json:"max,omitempty"`
	Mode       Mode     `json:"mode,omitempty"`
	Until      Instant  `json:"until_ms,omitempty"`
}

// MarshalJSON leaves max out when it is +Inf.
func (q Quota) MarshalJSON() ([]byte, error) {
	w := quotaJSON{Pool: q.Pool, Guaranteed: q.Guaranteed, Mode: q.Mode, Until: q.Until}
	if !math.IsInf(q.Max, 1) {
		w.Max = &q.Max
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads an absent max as +Inf, and notes what is not known.
func (q *Quota) UnmarshalJSON(b []byte) error {
	w := quotaJSON{}
	unknown, err := decode(b, &w)
	if err != nil {
		return err
	}
	*q = Quota{Pool: w.Pool, Guaranteed: w.Guaranteed, Max: Unbounded, Mode: w.Mode, Until: w.Until, Unknown: unknown}
	if w.Max != nil {
		q.Max = *w.Max
	}
	return nil
}

// UnmarshalJSON notes a field or a name that is not known. Fields of the limit's own
// objects count too.
func (l *Limit) UnmarshalJSON(b []byte) error {
	type plain Limit // without this method
	p := plain{}
	unknown, err := decode(b, &p)
	if err != nil {
		return err
	}
	*l = Limit(p)
	l.Unknown = unknown
	return nil
}

// UnmarshalJSON notes a name that is not known. A field that is not known is ignored:
// whatever changes what a pool means needs a new version of the link.
func (p *Pool) UnmarshalJSON(b []byte) error {
	type plain Pool // without this method
	to := plain{}
	unknown, err := lenient(b, &to)
	if err != nil {
		return err
	}
	*p = Pool(to)
	p.Unknown = unknown
	return nil
}

// decode reads v. unknown is the first field that v does not have, or the first value
// that its field does not know. If a field is unknown, all others are read; if a value is
// unknown, only the name of v is sure to be read.
func decode(b []byte, v any) (unknown *FieldError, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err = d.Decode(v); err == nil {
		return nil, nil
	}
	quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field ")
	if !ok {
		return unknownName(b, v, err)
	}
	name, err := strconv.Unquote(quoted)
	if err != nil {
		return nil, err
	}
	if unknown, err = lenient(b, v); unknown == nil {
		unknown = &FieldError{Field: name, Value: "a field that this build does not know", Want: newer}
	}
	return unknown, err
}

// lenient is decode that ignores unknown fields.
func lenient(b []byte, v any) (unknown *FieldError, err error) {
	if err := json.Unmarshal(b, v); err != nil {
		return unknownName(b, v, err)
	}
	return nil, nil
}

// newer is the release that reads the fields and the names that this build does not know.
const newer = "a newer gateway"

// unknownName takes an unknown name of an enumeration out of the error of a decoder.
func unknownName(b []byte, v any, err error) (*FieldError, error) {
	name := new(FieldError)
	if !errors.As(err, &name) {
		return nil, err
	}
	unknown := *name
	unknown.Want += ", or " + newer
	// The decoder stopped at the name, which may stand before the part's own.
	var called struct {
		Name string `json:"name,omitempty"`
		Pool string `json:"pool,omitempty"`
	}
	if err := json.Unmarshal(b, &called); err != nil {
		return nil, err
	}
	only, err := json.Marshal(called)
	if err != nil {
		return nil, err
	}
	return &unknown, json.Unmarshal(only, v)
}
