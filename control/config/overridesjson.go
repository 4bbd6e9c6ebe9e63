package config

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
)

// MarshalJSON writes the rows as base64 of 32 bytes each: key, number, burst, until, little-endian.
func (r OverrideRows) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, len(r)*rowBytes)
	for _, row := range r {
		b = appendRow(b, row)
	}
	return quoted(b), nil
}

func appendRow(b []byte, row Override) []byte {
	b = binary.LittleEndian.AppendUint64(b, row.Key)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(row.Number))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(row.Burst))
	return binary.LittleEndian.AppendUint64(b, uint64(row.Until))
}

func quoted(b []byte) []byte {
	out := make([]byte, 0, base64.StdEncoding.EncodedLen(len(b))+2)
	return append(base64.StdEncoding.AppendEncode(append(out, '"'), b), '"')
}

// unquoted is the bytes of a text, which are a multiple of size.
func unquoted(b []byte, size int) ([]byte, error) {
	if string(b) == "null" {
		return nil, nil
	}
	if len(b) < 2 || b[0] != '"' || b[len(b)-1] != '"' {
		return nil, fmt.Errorf("overrides: want a text")
	}
	raw, err := base64.StdEncoding.AppendDecode(nil, b[1:len(b)-1])
	if err == nil && len(raw)%size != 0 {
		err = fmt.Errorf("overrides: %d bytes, want a multiple of %d", len(raw), size)
	}
	return raw, err
}

// UnmarshalJSON reads rows, and refuses numbers that no override has.
func (r *OverrideRows) UnmarshalJSON(b []byte) error {
	raw, err := unquoted(b, rowBytes)
	if err != nil {
		return err
	}
	*r = make(OverrideRows, 0, len(raw)/rowBytes)
	for ; len(raw) > 0; raw = raw[rowBytes:] {
		number := func(i int) uint64 { return binary.LittleEndian.Uint64(raw[8*i:]) }
		row := Override{number(0), math.Float64frombits(number(1)), math.Float64frombits(number(2)), Instant(number(3))}
		if err := (RateBurst{Rate: row.Number, Burst: row.Burst, Until: row.Until}).Validate(); err != nil {
			return err
		}
		*r = append(*r, row)
	}
	return nil
}

// MarshalJSON writes the keys as base64 of 8 bytes each, little-endian.
func (k OverrideKeys) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, len(k)*8)
	for _, key := range k {
		b = binary.LittleEndian.AppendUint64(b, key)
	}
	return quoted(b), nil
}

// UnmarshalJSON reads keys.
func (k *OverrideKeys) UnmarshalJSON(b []byte) error {
	raw, err := unquoted(b, 8)
	*k = nil
	for ; err == nil && len(raw) > 0; raw = raw[8:] {
		*k = append(*k, binary.LittleEndian.Uint64(raw))
	}
	return err
}

// MarshalJSON writes all rows.
func (o *Overrides) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, o.Len()*rowBytes)
	for row := range o.All() {
		b = appendRow(b, row)
	}
	return quoted(b), nil
}

// UnmarshalJSON reads all rows.
func (o *Overrides) UnmarshalJSON(b []byte) error {
	var rows OverrideRows
	if err := rows.UnmarshalJSON(b); err != nil {
		return err
	}
	*o = Overrides{shift: 63, shards: make([]shard, 2)}
	if all := o.With(rows, nil); all != nil {
		*o = *all
	}
	return nil
}
