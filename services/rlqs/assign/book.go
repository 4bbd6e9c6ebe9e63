package assign

import (
	"errors"
	"math"
	"time"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/services/rls/subject"
)

const (
	second = int64(time.Second)
	// usualInterval is the time between two reports of Envoy 1.38 to 1.40, in nanoseconds.
	usualInterval = 5 * second
	// leastInterval is the least time over which demand is measured, and mostInterval the time after which a member
	// is not waited for.
	leastInterval, mostInterval = second * 9 / 10, 60 * second
	// lingerIntervals is for how many intervals a member of a closed stream keeps what it uses: an Envoy that lives on
	// comes back with its next report.
	lingerIntervals = 1.2
	// silentIntervals is after how many intervals without a report a member has forgotten its bucket.
	silentIntervals = 4
	// idleTime is after what time without requests an Envoy is asked to forget a bucket.
	idleTime = 60 * second
	// mostPerSecond bounds the requests per second that are believed of one member.
	mostPerSecond = 1e6
	// visitsAtOnce bounds the buckets of one Visit.
	visitsAtOnce = 256
	// hold is for how long a claimed demand holds without another visit, seconds.
	hold = 1
)

// Engine is the limiter's engine.
type Engine interface {
	Parts(now int64, r *limiter.Request, to []limiter.Part) (parts []limiter.Part, known bool)
	Account(now int64, r *limiter.Request, u limiter.Usage)
}

// Options are fixed for a book's life.
type Options struct {
	Engine Engine
	// DenyUnknown refuses the requests of tenants that are not configured; default: they pass.
	DenyUnknown bool
	// Streams, MembersOfStream and Members bound the streams, the buckets of one, and those of all.
	Streams, MembersOfStream, Members int
	// Rand returns uniform numbers in [0,1).
	Rand func() float64
}

// Errors of Open and Report.
var (
	ErrStreams = errors.New("too many streams")
	ErrStream  = errors.New("too many buckets in one stream")
	ErrMembers = errors.New("too many buckets")
)

// Book has all members. Not safe for concurrent use. Create it with New.
type Book struct {
	o       Options
	names   *limiter.Names
	streams map[*Stream]struct{} // open ones
	buckets map[string]*bucket
	list    []*bucket // the same, in the order of visits
	next    int       // of list
	members int
	unknown int // of members, as of the last round
	round   round
	Counts
}

// Counts are cumulative.
type Counts struct {
	Allowed, Denied             uint64 // requests reported
	Changed, Renewed, Abandoned uint64 // assignments sent
	Capped                      uint64 // reports beyond mostPerSecond
}

// Stream is one Envoy's stream.
type Stream struct {
	members map[string]*member
	out     map[string]Action // to be sent, by bucket
	wake    func()            // there is something in out
}

// Bucket names one kind of requests.
type Bucket struct {
	ID      string // differs from that of every other bucket
	Entries map[string]string
	Foreign bool // its domain is another one: no tenant is known
}

type bucket struct {
	Bucket
	request subject.Request
	place   int // in Book.list
	members []*member
	parts   []limiter.Part
	by      string // the limit that its members are short of
	short   bool
	visited int64
	allowed float64 // that are not accounted yet
	denied  float64
}

// member is one Envoy's use of a bucket.
type member struct {
	b      *bucket
	stream *Stream // nil: it is closed
	usage
	target
	sent     Action
	sentAt   int64
	ends     int64 // of the time to live of sent
	leaves   int64 // without a stream: when it is forgotten
	answered bool  // sent is something
}

// usage has a member's reports.
type usage struct {
	reported int64 // time of the last report
	since    int64 // from which requests are counted for the next measurement
	count    float64
	interval int64
	demand   float64 // requests/s
	measured bool
	used     int64 // time of the last report with requests
	// Requests to be accounted, evenly until then.
	allowed, denied float64
	until           int64
}

// New returns an empty book.
func New(o Options) *Book {
	return &Book{o: o, names: &limiter.Names{}, streams: map[*Stream]struct{}{}, buckets: map[string]*bucket{}}
}

// Name gives identities and classes the places that the engine finds them in.
func (b *Book) Name(names *limiter.Names) {
	b.names = names
	for _, one := range b.list {
		b.read(one)
	}
}

// read makes the request of a bucket.
func (b *Book) read(one *bucket) {
	one.request = subject.New(b.names)
	for key, value := range one.Entries {
		one.request.Add(key, value)
	}
	one.request.Cost = 1
}

// Sizes returns how many streams, buckets and members there are, and of how many members nothing is known.
func (b *Book) Sizes() (streams, buckets, members, unknown int) {
	return len(b.streams), len(b.list), b.members, b.unknown
}

// Open returns a new stream. wake is called when Take has something; it must not call the book.
func (b *Book) Open(wake func()) (*Stream, error) {
	if len(b.streams) >= b.o.Streams {
		return nil, ErrStreams
	}
	s := &Stream{members: map[string]*member{}, out: map[string]Action{}, wake: wake}
	b.streams[s] = struct{}{}
	return s, nil
}

// Close notes that a stream has ended. Its Envoy goes on by what it was assigned, so it counts for a while.
func (b *Book) Close(now int64, s *Stream) {
	delete(b.streams, s)
	for _, m := range s.members {
		m.stream, m.leaves = nil, now+int64(lingerIntervals*float64(m.interval))
	}
	s.members, s.out = nil, nil
}

// Report takes what an Envoy has done with a bucket since its report before. The book keeps the bucket's entries.
func (b *Book) Report(now int64, s *Stream, of Bucket, allowed, denied uint64) error {
	m := s.members[of.ID]
	if m == nil {
		switch {
		case s.members == nil: // it is closed
			return nil
		case len(s.members) >= b.o.MembersOfStream:
			return ErrStream
		case b.members >= b.o.Members:
			return ErrMembers
		}
		m = b.join(now, s, of)
	}
	b.Allowed += allowed
	b.Denied += denied
	a, d := b.believe(now, m, allowed), b.believe(now, m, denied)
	m.report(now, a, d)
	return nil
}

// believe bounds a number of requests.
func (b *Book) believe(now int64, m *member, n uint64) float64 {
	most := mostPerSecond * max(1, float64(now-m.reported)*1e-9)
	if float64(n) > most {
		b.Capped++
		return most
	}
	return float64(n)
}

func (b *Book) join(now int64, s *Stream, of Bucket) *member {
	one := b.buckets[of.ID]
	if one == nil {
		one = &bucket{Bucket: of, place: len(b.list), visited: now}
		b.read(one)
		b.buckets[of.ID] = one
		b.list = append(b.list, one)
	}
	m := &member{b: one, stream: s,
		usage: usage{reported: now, since: now, interval: usualInterval, used: now, until: now}}
	one.members = append(one.members, m)
	s.members[of.ID] = m
	b.members++
	return m
}

// report takes requests, and measures the demand if enough time has passed.
func (m *member) report(now int64, allowed, denied float64) {
	m.reported = now
	m.allowed, m.denied, m.count = m.allowed+allowed, m.denied+denied, m.count+allowed+denied
	if allowed+denied > 0 {
		m.used = now
	}
	elapsed := now - m.since
	if elapsed < leastInterval {
		m.until = max(m.until, now)
		return
	}
	m.measure(m.count/(float64(elapsed)*1e-9), float64(elapsed)*1e-9)
	m.interval = min(elapsed, mostInterval)
	m.since, m.count, m.until = now, 0, now+m.interval
}

// measure takes a demand that was measured over so many seconds. A change beyond chance counts at once; what may be
// chance is averaged, so that shares keep still.
func (m *member) measure(rate, seconds float64) {
	change, first := math.Abs(rate-m.demand), !m.measured
	if m.measured = true; first || change > max(m.demand/4, 3*math.Sqrt(max(rate, m.demand)/seconds)) {
		m.demand = rate
		return
	}
	m.demand += (rate - m.demand) / 4
}

// leave removes a member.
func (b *Book) leave(now int64, m *member) {
	one := m.b
	for i, other := range one.members {
		if other == m {
			last := len(one.members) - 1
			one.members[i], one.members[last] = one.members[last], nil
			one.members = one.members[:last]
			break
		}
	}
	one.allowed, one.denied = one.allowed+m.allowed, one.denied+m.denied
	if m.stream != nil {
		delete(m.stream.members, one.ID)
	}
	b.members--
	if len(one.members) > 0 {
		return
	}
	b.account(now, one, 0, 0) // it claims nothing more
	last := len(b.list) - 1
	b.list[one.place], b.list[last].place = b.list[last], one.place
	b.list[last], b.list = nil, b.list[:last]
	delete(b.buckets, one.ID)
}

// Visit accounts what was used, of some buckets: call it each 10 ms.
func (b *Book) Visit(now int64) {
	n := min(len(b.list), visitsAtOnce)
	for range n {
		b.next++
		if b.next >= len(b.list) {
			b.next = 0
		}
		b.visit(now, b.list[b.next], max(hold, 0.02*float64(len(b.list))/visitsAtOnce))
	}
}

// Flush accounts all that was reported.
func (b *Book) Flush(now int64) {
	for _, one := range b.list {
		for _, m := range one.members {
			m.until = now
		}
		b.visit(now, one, 0)
	}
}

func (b *Book) visit(now int64, one *bucket, hold float64) {
	demand := 0.
	for _, m := range one.members {
		demand += m.demand
		part := 1.
		if left := m.until - one.visited; m.until > now && left > 0 {
			part = min(1, float64(now-one.visited)/float64(left))
		}
		a, d := part*m.allowed, part*m.denied
		m.allowed, m.denied = m.allowed-a, m.denied-d
		one.allowed, one.denied = one.allowed+a, one.denied+d
	}
	one.visited = now
	if demand > 0 || one.allowed >= 1 || one.denied >= 1 {
		b.account(now, one, demand, hold)
	}
}

// account charges whole requests, and has a demand claimed for hold seconds.
func (b *Book) account(now int64, one *bucket, demand, hold float64) {
	const rounding = 1e-6
	allowed, denied := math.Floor(one.allowed+rounding), math.Floor(one.denied+rounding)
	one.allowed, one.denied = one.allowed-allowed, one.denied-denied
	b.o.Engine.Account(now, &one.request.Request, limiter.Usage{Admitted: uint64(allowed), Refused: uint64(denied),
		By: one.by, Demand: demand, Hold: hold, Short: one.short})
}
