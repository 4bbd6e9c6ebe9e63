package booking

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

// maxShard bounds a shard that is unpacked, bytes.
const maxShard = 64 << 20

var errValue = errors.New("not a value of bookings that this release can read")

// RestoreShard takes in a shard that Fold has made, and returns its position. Values up to it have nothing new for it.
func (b *Book) RestoreShard(now time.Time, shard int, packed []byte) (position uint64, err error) {
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxShard+1))
	if err != nil || len(text) > maxShard || len(text) == 0 || text[0] != version {
		return 0, errValue
	}
	d := decoder{rest: text[1:]}
	position = d.number()
	b.read(now, &d, func(id uint64) bool { return id%Shards == uint64(shard) })
	return position, d.err
}

// Replay takes in a value that Write has made. after reports whether it came after the position of a shard.
func (b *Book) Replay(now time.Time, value []byte, after func(shard int) bool) error {
	if len(value) == 0 || value[0] != version {
		return errValue
	}
	d := decoder{rest: value[1:]}
	b.read(now, &d, func(id uint64) bool { return after(int(id % Shards)) })
	return d.err
}

// read takes in entries; mine says of which records.
func (b *Book) read(now time.Time, d *decoder, mine func(id uint64) bool) {
	for len(d.rest) > 0 && d.err == nil {
		switch kind := d.byte(); kind {
		case entryFloor:
			of, floor := d.calendar(), d.signed()
			if p := b.calendars.get(of); p != nil && d.err == nil {
				p.floor = max(p.floor, floor)
			}
		case entryRecord:
			if one := d.record(now); d.err == nil && mine(one.id) {
				b.replace(one)
			}
		case entryChange:
			b.change(now, d, mine)
		case entryRemoved:
			if id := d.number(); d.err == nil && mine(id) {
				if one := b.shards[id%Shards][id]; one != nil {
					b.drop(one)
				}
			}
		default:
			d.err = fmt.Errorf("%w: entry %q", errValue, kind)
		}
	}
}

// replace puts a record in the place of the one with its ID, or of its name.
func (b *Book) replace(one *record) {
	if before := b.shards[one.id%Shards][one.id]; before != nil {
		b.drop(before)
	}
	if before := b.records[one.account]; before != nil {
		b.drop(before)
	}
	b.insert(one)
}

func (b *Book) change(now time.Time, d *decoder, mine func(id uint64) bool) {
	id, next, n := d.number(), d.units(), d.count(maxSessions)
	one := b.shards[id%Shards][id]
	ours := mine(id)
	if d.err == nil && ours && one == nil {
		b.counts.Unreadable++ // its name was in a value that is lost
	}
	if one != nil && ours {
		one.next = next
	}
	for range n {
		s := d.session(now)
		if d.err != nil || one == nil || !ours {
			continue
		}
		if known := one.find(s.id); known != nil {
			*known = s
		} else if len(one.sessions) < maxSessions { // more are not written
			one.sessions = append(one.sessions, s)
		}
	}
}

// decoder reads entries. After an error all that it reads is zero.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) take(n uint64) []byte {
	if d.err != nil || n > uint64(len(d.rest)) {
		d.err = errValue
		return nil
	}
	out := d.rest[:n]
	d.rest = d.rest[n:]
	return out
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) number() uint64 { return read(d, binary.Uvarint) }

func (d *decoder) signed() int64 { return read(d, binary.Varint) }

func read[N uint64 | int64](d *decoder, decode func([]byte) (N, int)) N {
	n, size := decode(d.rest)
	if d.err != nil || size <= 0 {
		d.err = errValue
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// units reads an amount within its bound.
func (d *decoder) units() Units {
	n := d.number()
	if n > uint64(calendar.MaxUnits) {
		d.err = errValue
		return 0
	}
	return Units(n)
}

// use reads sums, which may exceed that bound.
func (d *decoder) use() calendar.Use {
	const bits = 1<<63 - 1
	return calendar.Use{Admitted: Units(d.number() & bits), Refused: Units(d.number() & bits),
		Settled: max(Units(d.signed()), -bits)}
}

// count reads the length of a list.
func (d *decoder) count(most int) int {
	n := d.number()
	if n > uint64(most) {
		d.err = errValue
		return 0
	}
	return int(n)
}

func (d *decoder) text(most int) string { return string(d.take(uint64(d.count(most)))) }

func (d *decoder) calendar() config.Calendar {
	return config.Calendar{Per: config.Per(d.byte()), Zone: d.text(config.MaxZone), StartsOn: d.byte()}
}

func (d *decoder) record(now time.Time) *record {
	one := &record{id: d.number(), seen: now}
	const most = exchange.MaxKeyName
	one.Tenant, one.Limit, one.Client = d.text(most), d.text(most), d.text(most)
	one.Calendar, one.Period = d.calendar(), d.signed()
	flags := d.byte()
	if one.final = flags&flagFinal != 0; flags&flagReset != 0 {
		one.Reset = config.Instant(d.signed())
	}
	one.amount, one.next = d.units(), d.units()
	one.lost, one.notified = int32(d.count(1<<30)), d.count(config.MaxSoft)
	one.base = d.use()
	for range d.count(maxFree) {
		from := d.units()
		one.free = append(one.free, interval{from, from + d.units()})
	}
	for range d.count(maxSessions) {
		one.sessions = append(one.sessions, d.session(now))
		if d.err != nil {
			break
		}
	}
	return one
}

func (d *decoder) session(now time.Time) (s session) {
	s.seen = now
	if id := d.take(8); id != nil {
		s.id = binary.LittleEndian.Uint64(id)
	}
	number := d.number()
	s.number, s.final = number>>1, number&1 != 0
	s.from = d.units()
	s.low, s.to = s.from, s.from+d.units()
	s.use = d.use()
	return s
}
