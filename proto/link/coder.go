package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// maxRecord bounds one record, and so the strings in it.
const maxRecord = 1<<16 - 1

var errRecord = errors.New("a record is longer than 64 KiB; its strings are too long")

// coder writes or reads the binary payloads. One description of a message serves both
// directions, so that they cannot differ: each method appends its value when writing and
// sets it when reading. Writing does not change the message: several writers may encode
// one message at a time.
type coder struct {
	buf     []byte
	reading bool
	// message, at and end are for reading: at is the next byte, end is where
	// the record in hand stops.
	message kind
	at, end int
	err     error
}

func (c *coder) fail(field, format string, args ...any) {
	if c.err == nil {
		c.err = &FormatError{Message: c.message.String(), Field: field, Offset: c.at,
			Reason: fmt.Sprintf(format, args...)}
	}
}

// take returns the next n bytes of the record. At the record's exact end it
// returns nil: the writer was older and did not have the field.
func (c *coder) take(field string, n int) []byte {
	if c.err != nil || c.at == c.end {
		return nil
	}
	if n > c.end-c.at {
		c.fail(field, "needs %d bytes, %d are left", n, c.end-c.at)
		return nil
	}
	c.at += n
	return c.buf[c.at-n : c.at]
}

func (c *coder) u64(field string, v *uint64) {
	if !c.reading {
		c.buf = binary.LittleEndian.AppendUint64(c.buf, *v)
		return
	}
	*v = 0
	if b := c.take(field, 8); b != nil {
		*v = binary.LittleEndian.Uint64(b)
	}
}

func (c *coder) u32(field string, v *uint32) {
	if !c.reading {
		c.buf = binary.LittleEndian.AppendUint32(c.buf, *v)
		return
	}
	*v = 0
	if b := c.take(field, 4); b != nil {
		*v = binary.LittleEndian.Uint32(b)
	}
}

func (c *coder) u8(field string, v *uint8) {
	if !c.reading {
		c.buf = append(c.buf, *v)
		return
	}
	*v = 0
	if b := c.take(field, 1); b != nil {
		*v = b[0]
	}
}

func (c *coder) boolean(field string, v *bool) {
	var b uint8
	if *v {
		b = 1
	}
	c.u8(field, &b)
	if b > 1 {
		c.fail(field, "%d is not a boolean, 0 or 1 is", b)
	}
	if c.reading {
		*v = b == 1
	}
}

// uvarint codes a number that is small as a rule, in as many bytes as it needs.
func (c *coder) uvarint(field string, v *uint64) {
	if !c.reading {
		c.buf = binary.AppendUvarint(c.buf, *v)
		return
	}
	*v = 0
	if c.err != nil || c.at == c.end {
		return // the writer was older
	}
	n := 0
	if *v, n = binary.Uvarint(c.buf[c.at:c.end]); n <= 0 {
		*v = 0
		c.fail(field, "is no whole number of at most 64 bits")
		return
	}
	c.at += n
}

// integer codes any signed 64-bit kind.
func integer[T ~int | ~int64](c *coder, field string, v *T) {
	u := uint64(*v)
	c.u64(field, &u)
	if c.reading {
		*v = T(u)
	}
}

// f64 codes a number; NaN and −∞ are refused when reading, so that what comes
// from outside can be computed with.
func (c *coder) f64(field string, v *float64) {
	u := math.Float64bits(*v)
	c.u64(field, &u)
	if !c.reading {
		return
	}
	if *v = math.Float64frombits(u); math.IsNaN(*v) || math.IsInf(*v, -1) {
		c.fail(field, "is %v, a number or +Inf is needed", *v)
	}
}

func (c *coder) f64s(field string, vs ...*float64) {
	for _, v := range vs {
		c.f64(field, v)
	}
}

func (c *coder) str(field string, v *string) {
	if !c.reading {
		if len(*v) > maxRecord {
			c.err = errRecord
			return
		}
		c.buf = binary.LittleEndian.AppendUint16(c.buf, uint16(len(*v)))
		c.buf = append(c.buf, *v...)
		return
	}
	*v = ""
	b := c.take(field, 2)
	if b == nil {
		return
	}
	n := int(binary.LittleEndian.Uint16(b))
	if n == 0 {
		return
	}
	if c.at == c.end {
		c.fail(field, "needs %d bytes, none are left", n)
		return
	}
	*v = string(c.take(field, n))
}

// record frames what f codes with a 16-bit length. When reading, bytes that f does not
// read are skipped: a newer writer has appended fields. A record shorter than the first
// version of its layout (least) is malformed.
func (c *coder) record(field string, least int, f func()) {
	if c.err != nil {
		return
	}
	if !c.reading {
		at := len(c.buf)
		c.buf = append(c.buf, 0, 0)
		f()
		n := len(c.buf) - at - 2
		if n > maxRecord {
			c.err = errRecord
			return
		}
		binary.LittleEndian.PutUint16(c.buf[at:], uint16(n))
		return
	}
	n := c.length16(field)
	if c.err == nil && (n < least || n > len(c.buf)-c.at) {
		c.fail(field, "record of %d bytes: at least %d are needed and %d are left", n, least, len(c.buf)-c.at)
	}
	if c.err != nil {
		return
	}
	c.end = c.at + n
	f()
	c.at = c.end
}

func (c *coder) length16(field string) int {
	if len(c.buf)-c.at < 2 {
		c.fail(field, "cut short before a record's length")
		return 0
	}
	c.at += 2
	return int(binary.LittleEndian.Uint16(c.buf[c.at-2:]))
}

// list codes a 32-bit count and that many records.
func list[T any](c *coder, field string, least int, v *[]T, f func(*coder, *T)) {
	if c.err != nil {
		return
	}
	if !c.reading {
		c.buf = binary.LittleEndian.AppendUint32(c.buf, uint32(len(*v)))
	} else {
		*v = nil
		if n := c.count(field, least+2); n > 0 {
			*v = make([]T, n)
		}
	}
	for i := range *v {
		c.record(field, least, func() { f(c, &(*v)[i]) })
	}
}

// inline codes a list inside a record, which bounds it: the items follow their number.
func inline[T any](c *coder, field string, v *[]T, f func(*coder, *T)) {
	n := uint64(len(*v))
	c.uvarint(field, &n)
	if c.reading {
		if *v = nil; n > uint64(c.end-c.at) { // each takes a byte at least
			c.fail(field, "announces %d items, %d bytes are left", n, c.end-c.at)
		}
		if c.err != nil || n == 0 {
			return
		}
		*v = make([]T, n)
	}
	for i := range *v {
		if c.reading && c.at == c.end {
			c.fail(field, "has %d items, %d were announced", i, n)
		}
		f(c, &(*v)[i])
	}
}

// count reads a list's length and checks it against the bytes that are left,
// before anything is allocated for it.
func (c *coder) count(field string, size int) int {
	if len(c.buf)-c.at < 4 {
		c.fail(field, "cut short before a list's length")
		return 0
	}
	n := int(binary.LittleEndian.Uint32(c.buf[c.at:]))
	c.at += 4
	if n > (len(c.buf)-c.at)/size {
		c.fail(field, "announces %d records of at least %d bytes, %d bytes are left", n, size, len(c.buf)-c.at)
		return 0
	}
	return n
}
