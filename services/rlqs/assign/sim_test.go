package assign

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter"
)

const millisecond = second / 1000

// envoy is a model of Envoy's filter with one bucket: it takes numbers that differ for a new, full token bucket, and
// reports each five seconds.
type envoy struct {
	s               *Stream
	has             Action
	until           int64
	tokens          float64
	load            float64 // requests/s
	allowed, denied uint64  // since its report
	total, refused  uint64
	reports, born   int64
	expired         uint64 // requests without an assignment, which pass
}

var bob = Bucket{ID: "acme/bob", Entries: map[string]string{"tenant": "acme", "client": "bob"}}

// world has Envoys at one agent.
type world struct {
	t      *testing.T
	now    int64
	engine *limiter.Engine
	book   *Book
	all    []*envoy
	random *rand.Rand
	lost   bool // the agent sends nothing
}

func newWorld(t *testing.T, limits ...config.Limit) *world {
	t.Helper()
	w := &world{t: t, now: second, engine: limiter.New(limiter.Options{Keys: 1024}), random: rand.New(rand.NewPCG(1, 2))}
	w.apply(1, limits...)
	w.book = New(Options{Engine: w.engine, Streams: 10, MembersOfStream: 10, Members: 50, Rand: w.random.Float64})
	return w
}

func (w *world) apply(revision int64, limits ...config.Limit) {
	w.t.Helper()
	if err := w.engine.Apply(&config.Config{Revision: revision,
		Tenants: []config.Tenant{{Name: "acme", Weight: 1, Limits: limits}}}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) start(load float64) *envoy {
	w.t.Helper()
	e := &envoy{load: load, born: w.now, reports: w.now + 5*second}
	w.open(e)
	w.all = append(w.all, e)
	return e
}

func (w *world) open(e *envoy) {
	w.t.Helper()
	var err error
	if e.s, err = w.book.Open(func() {}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) report(e *envoy) {
	w.t.Helper()
	if err := w.book.Report(w.now, e.s, bob, e.allowed, e.denied); err != nil {
		w.t.Fatal(err)
	}
	e.allowed, e.denied = 0, 0
}

// run lets seconds pass in steps of 10 ms.
func (w *world) run(seconds int64) {
	w.t.Helper()
	for end := w.now + seconds*second; w.now < end; w.now += 10 * millisecond {
		for _, e := range w.all {
			w.step(e)
		}
		w.engine.Tick(w.now, nil)
		w.book.Visit(w.now)
		if w.now%(250*millisecond) == 0 {
			w.book.Round(w.now)
		}
	}
}

func (w *world) step(e *envoy) {
	for _, a := range w.book.Take(e.s, 10) {
		if w.lost {
			continue
		}
		if e.has.Tokens != a.Tokens || e.has.Burst != a.Burst || e.has.Seconds != a.Seconds {
			e.tokens = float64(a.Burst)
		}
		e.has, e.until = a, w.now+int64(a.TTL)
	}
	e.tokens = min(e.tokens+e.has.rate()/100, float64(e.has.Burst))
	for arrivals := w.random.ExpFloat64(); arrivals < e.load/100; arrivals += w.random.ExpFloat64() {
		e.request(w)
	}
	if w.now >= e.reports {
		e.reports += 5 * second
		w.report(e)
	}
}

func (e *envoy) request(w *world) {
	fresh := e.allowed+e.denied+e.total+e.refused == 0
	pass := e.has.Kind == AllowAll
	switch {
	case w.now >= e.until:
		e.expired++
		pass = true
	case e.has.Kind == Rate && e.tokens >= 1:
		e.tokens--
		pass = true
	}
	if pass {
		e.allowed++
		e.total++
	} else {
		e.denied++
		e.refused++
	}
	if fresh {
		w.report(e)
	}
}

// kill ends an Envoy.
func (w *world) kill(i int) {
	w.book.Close(w.now, w.all[i].s)
	w.all = append(w.all[:i], w.all[i+1:]...)
}

// admitted returns what was admitted by each Envoy during the next seconds.
func (w *world) admitted(seconds int64) (each []float64, sum float64) {
	w.t.Helper()
	before := map[*envoy]uint64{}
	for _, e := range w.all {
		before[e] = e.total
	}
	w.run(seconds)
	for _, e := range w.all {
		rate := float64(e.total-before[e]) / float64(seconds)
		each, sum = append(each, rate), sum+rate
	}
	return each, sum
}

func (w *world) want(what string, got, least, most float64) {
	w.t.Helper()
	if got < least || got > most {
		w.t.Errorf("%s: %.2f, want %.2f to %.2f", what, got, least, most)
	}
}

// The mean over all Envoys is the limit, each Envoy has its max-min share, and a shift of demand is followed within two
// reports. Of a limit of a few requests per second more is lost: an Envoy's bucket holds few tokens, and requests come
// by chance.
func TestMeanAndShift(t *testing.T) {
	for rate, least := range map[float64]float64{2: .78, 20: .95, 100: .97, 1000: .97} {
		t.Run(strconv.Itoa(int(rate)), func(t *testing.T) {
			w := newWorld(t, config.Limit{Name: "l", Rate: rate, Burst: rate})
			a, b, c := w.start(.9*rate), w.start(.45*rate), w.start(.15*rate)
			w.run(30)
			each, sum := w.admitted(120)
			t.Logf("%.2f of %v: %.2f; %d changed, %d renewed", sum, rate, each, w.book.Changed, w.book.Renewed)
			w.want("mean", sum/rate, least, 1.015)
			w.want("share of a", each[0]/rate, least-.59, .48)
			w.want("share of b", each[1]/rate, least-.59, .48)
			w.want("share of c", each[2]/rate, .12, .16)
			a.load, b.load, c.load = .15*rate, .45*rate, .9*rate
			w.run(10)
			each, sum = w.admitted(60)
			t.Logf("after the shift %.2f: %.2f", sum, each)
			w.want("mean after the shift", sum/rate, least-.02, 1.03)
			w.want("share of a after it", each[0]/rate, .1, .16)
			w.want("share of c after it", each[2]/rate, least-.59, .48)
		})
	}
}

// Below the limit, hardly a request is refused.
func TestBelowTheLimit(t *testing.T) {
	w := newWorld(t, config.Limit{Name: "l", Rate: 100, Burst: 100})
	a, b := w.start(50), w.start(20)
	w.run(120)
	w.want("refused by a", float64(a.refused)/float64(a.total), 0, .01)
	w.want("refused by b", float64(b.refused)/float64(b.total), 0, .01)
	if w.book.Changed > 60 {
		t.Errorf("%d changes in two minutes", w.book.Changed)
	}
}

// An Envoy that is killed gives up its share within two intervals. A new Envoy gets a share with its first request.
func TestKillAndRestart(t *testing.T) {
	w := newWorld(t, config.Limit{Name: "l", Rate: 100, Burst: 100})
	w.start(100)
	w.start(100)
	w.start(100)
	w.run(30)
	w.kill(0)
	w.run(10)
	_, sum := w.admitted(30)
	w.want("two of three", sum, 96, 102)
	late := w.start(100)
	w.run(10)
	each, sum := w.admitted(60)
	w.want("three again", sum, 96, 102)
	w.want("the new one", each[2], 31, 35)
	if late.expired > 30 {
		t.Errorf("%d requests without an assignment", late.expired)
	}
}

// While the agent is away assignments expire, not all at once, and are back with the next report.
func TestExpiry(t *testing.T) {
	w := newWorld(t, config.Limit{Name: "l", Rate: 100, Burst: 100})
	for range 10 {
		w.start(20)
	}
	w.run(60)
	w.lost = true
	ends := map[int64]bool{}
	for _, e := range w.all {
		if e.until < w.now+10*second {
			t.Errorf("an assignment ends in %v", e.until-w.now)
		}
		ends[e.until/second] = true
	}
	if len(ends) < 4 {
		t.Errorf("assignments end in %d different seconds", len(ends))
	}
	w.run(40)
	w.lost = false
	before := w.all[0].expired
	if before == 0 {
		t.Fatal("nothing expired")
	}
	w.run(30)
	_, sum := w.admitted(30)
	w.want("after the agent is back", sum, 95, 103)
}

// A limit that changes is in force with the next round; SHADOW never restricts; an unknown tenant is let in.
func TestChanges(t *testing.T) {
	w := newWorld(t, config.Limit{Name: "l", Rate: 100, Burst: 100})
	a, b := w.start(200), w.start(200)
	w.run(20)
	w.apply(2, config.Limit{Name: "l", Rate: 10, Burst: 10})
	w.run(1)
	w.want("rates after the change", a.has.rate()+b.has.rate(), 4.9, 10.1)
	w.apply(3, config.Limit{Name: "l", Rate: 10, Burst: 10, Mode: config.Shadow})
	w.run(1)
	if a.has.Kind != AllowAll || b.has.Kind != AllowAll {
		t.Errorf("SHADOW: %+v", a.has)
	}
	w.apply(4, config.Limit{Name: "l"})
	w.run(1)
	if a.has.Kind != DenyAll {
		t.Errorf("a rate of 0: %+v", a.has)
	}
	if err := w.engine.Apply(&config.Config{Revision: 5}); err != nil {
		t.Fatal(err)
	}
	w.run(1)
	if a.has.Kind != AllowAll {
		t.Errorf("unknown tenant: %+v", a.has)
	}
}

// Streams, buckets of a stream and buckets of all have bounds. A bucket is given up if it is not used, or if its Envoy
// no longer reports it.
func TestBounds(t *testing.T) {
	w := newWorld(t)
	w.book.o.Streams, w.book.o.MembersOfStream, w.book.o.Members = 2, 3, 4
	one, _ := w.book.Open(func() {})
	two, _ := w.book.Open(func() {})
	if _, err := w.book.Open(func() {}); !errors.Is(err, ErrStreams) {
		t.Errorf("a third stream: %v", err)
	}
	report := func(s *Stream, id string, used uint64) error {
		return w.book.Report(w.now, s, Bucket{ID: id, Entries: map[string]string{"tenant": "acme"}}, used, 0)
	}
	for i, want := range []error{nil, nil, nil, ErrStream} {
		if err := report(one, strconv.Itoa(i), 1); !errors.Is(err, want) {
			t.Errorf("bucket %d: %v, want %v", i, err, want)
		}
	}
	if err := report(two, "0", 1); err != nil {
		t.Error(err)
	}
	if err := report(two, "1", 1); !errors.Is(err, ErrMembers) {
		t.Errorf("a fifth bucket: %v", err)
	}
	for range 12 { // bucket 0 of the first stream is reported, and not used; the others are not reported
		w.now += 5 * second
		_ = report(one, "0", 0)
		w.book.Visit(w.now)
		w.book.Round(w.now)
	}
	if _, buckets, members, _ := w.book.Sizes(); buckets != 0 || members != 0 || w.book.Abandoned != 1 {
		t.Errorf("%d buckets, %d members, %d abandoned", buckets, members, w.book.Abandoned)
	}
	w.book.Close(w.now, one)
	if err := report(one, "0", 1); err != nil || len(w.book.list) != 0 {
		t.Errorf("a closed stream: %v", err)
	}
}

// Whole tokens in whole seconds are no more than the rate, and hardly less.
func TestFill(t *testing.T) {
	for rate := 1e-8; rate < 1e12; rate *= 1.37 {
		n, s := fill(rate)
		got := float64(n) / float64(s)
		if n < 1 || s < 1 || s > longestFill || rate < 4e9 && (got > rate*(1+1e-9) || got < rate*(1-2*fine)) {
			t.Errorf("%v is %d in %d s", rate, n, s)
		}
	}
}
