package booking

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
)

// Shards counts the parts of a book, see Fold.
const Shards = 256

// version is the first byte of every value.
const version = 1

// Kinds of entries in a value.
const (
	entryFloor   = 'f' // calendar, number of its period
	entryRecord  = 'r' // all of a record
	entryChange  = 'c' // next, and some sessions
	entryRemoved = 'x'
)

// Flags of a record.
const (
	flagFinal = 1 << iota
	flagReset // when its key was reset comes next
)

// valueBytes is the size of a value after which Write begins another one: a transaction of etcd takes 1.5 MiB.
const valueBytes = 512 << 10

// Write returns what has changed since the last call, in values that are to be stored in order; none: nothing has.
func (b *Book) Write() (values [][]byte) {
	out := []byte{version}
	end := func(least int) {
		if len(out) > least {
			values = append(values, out)
			out = []byte{version}
		}
	}
	if b.calendars.dirty {
		out, b.calendars.dirty = b.floors(out), false
	}
	for _, one := range b.dirty {
		if !one.gone {
			out = one.encode(out)
		}
		one.dirty = false
		end(valueBytes)
	}
	for _, id := range b.removed {
		out = binary.AppendUvarint(append(out, entryRemoved), id)
		end(valueBytes)
	}
	b.dirty, b.removed = b.dirty[:0], nil
	end(1)
	return values
}

func (b *Book) floors(out []byte) []byte {
	for of, p := range b.calendars.of {
		if p.floor != 0 {
			out = appendCalendar(append(out, entryFloor), of)
			out = binary.AppendVarint(out, p.floor)
		}
	}
	return out
}

// encode appends what has changed of a record, and notes that it is encoded.
func (one *record) encode(out []byte) []byte {
	if one.whole || one.named {
		one.whole, one.named, one.stale = false, false, false
		return one.encodeWhole(out)
	}
	out = binary.AppendUvarint(append(out, entryChange), one.id)
	out = binary.AppendUvarint(out, uint64(one.next))
	n := 0
	for i := range one.sessions {
		if one.sessions[i].dirty {
			n++
		}
	}
	out = binary.AppendUvarint(out, uint64(n))
	for i := range one.sessions {
		if s := &one.sessions[i]; s.dirty {
			out = s.encode(out)
		}
	}
	return out
}

func (one *record) encodeWhole(out []byte) []byte {
	out = binary.AppendUvarint(append(out, entryRecord), one.id)
	for _, text := range []string{one.Tenant, one.Limit, one.Client} {
		out = appendText(out, text)
	}
	out = binary.AppendVarint(appendCalendar(out, one.Calendar), one.Period)
	flags := byte(0)
	if one.final {
		flags = flagFinal
	}
	if one.Reset != 0 {
		flags |= flagReset
	}
	out = append(out, flags)
	if one.Reset != 0 {
		out = binary.AppendVarint(out, int64(one.Reset))
	}
	for _, n := range []uint64{uint64(one.amount), uint64(one.next), uint64(one.lost), uint64(one.notified)} {
		out = binary.AppendUvarint(out, n)
	}
	out = binary.AppendUvarint(appendUse(out, &one.base), uint64(len(one.free)))
	for _, i := range one.free {
		out = binary.AppendUvarint(binary.AppendUvarint(out, uint64(i.from)), uint64(i.to-i.from))
	}
	out = binary.AppendUvarint(out, uint64(len(one.sessions)))
	for i := range one.sessions {
		out = one.sessions[i].encode(out)
	}
	return out
}

func (s *session) encode(out []byte) []byte {
	s.dirty = false
	out = binary.LittleEndian.AppendUint64(out, s.id)
	number := s.number << 1
	if s.final {
		number++
	}
	for _, n := range []uint64{number, uint64(s.from), uint64(s.to - s.from)} {
		out = binary.AppendUvarint(out, n)
	}
	return appendUse(out, &s.use)
}

func appendUse(out []byte, u *calendar.Use) []byte {
	out = binary.AppendUvarint(binary.AppendUvarint(out, uint64(u.Admitted)), uint64(u.Refused))
	return binary.AppendVarint(out, int64(u.Settled))
}

// Fold returns one shard, with what was last written; position is the number of the value that has it.
func (b *Book) Fold(shard int, position uint64) []byte {
	out := binary.AppendUvarint([]byte{version}, position)
	if shard == 0 {
		out = b.floors(out)
	}
	for _, id := range slices.Sorted(maps.Keys(b.shards[shard])) {
		one := b.shards[shard][id]
		out = one.encodeWhole(out)
		one.stale = false
	}
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err == nil {
		_, err = w.Write(out)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil { // a buffer takes everything
		panic(err)
	}
	return packed.Bytes()
}

// Stale reports whether use in a shard has changed since it was encoded.
func (b *Book) Stale(shard int) bool {
	for _, one := range b.shards[shard] {
		if one.stale {
			return true
		}
	}
	return false
}

func appendText(out []byte, text string) []byte {
	return append(binary.AppendUvarint(out, uint64(len(text))), text...)
}

func appendCalendar(out []byte, c config.Calendar) []byte {
	return append(appendText(append(out, byte(c.Per)), c.Zone), c.StartsOn)
}
