package stats

import (
	"cmp"
	"math/bits"
	"sync"
	"time"

	"github.com/titrate/titrate/control/limiter"
)

// Waits collects how long requests were held, per pool and outcome: the ticker adds to it, Envoy's main thread
// publishes it. There are four buckets to an octave of milliseconds, so the error of a published wait is less
// than an eighth of the wait plus half a millisecond.
type Waits struct {
	mu    sync.Mutex
	pools map[string]*[2]waits // by outcome: admitted, refused
}

// waits counts the waits that are not published yet, by bucket.
type waits [buckets]uint32

const (
	perOctave = 4
	// buckets reach to 2^17 ms; no queue holds a request for more than a minute.
	buckets = 18 * perOctave
)

// Refused is the outcome of a held request that was refused in the end.
const Refused = "refused"

// Add counts the waits that have ended.
func (w *Waits) Add(events []limiter.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range events {
		e := &events[i]
		pool := w.pools[e.Pool]
		if pool == nil {
			if w.pools == nil {
				w.pools = map[string]*[2]waits{}
			}
			pool = new([2]waits)
			w.pools[e.Pool] = pool
		}
		outcome := 0
		if e.Outcome.Verdict == limiter.Reject {
			outcome = 1
		}
		pool[outcome][bucket(e.Outcome.Waited)]++
	}
}

// bucket returns a wait's bucket: one for each millisecond up to 7, then four to an
// octave.
func bucket(wait time.Duration) int {
	ms := uint64(max(0, wait+time.Millisecond/2) / time.Millisecond)
	if ms < 2*perOctave {
		return int(ms)
	}
	octave := bits.Len64(ms) - 1 // ≥ 3
	quarter := int(ms>>(octave-2)) & (perOctave - 1)
	return min((octave-1)*perOctave+quarter, buckets-1)
}

// middle is the wait that is published for a bucket, ms.
func middle(bucket int) uint64 {
	if bucket < 2*perOctave {
		return uint64(bucket)
	}
	octave, quarter := bucket/perOctave+1, bucket%perOctave
	width := uint64(1) << (octave - 2)
	return uint64(perOctave+quarter)*width + (width-1)/2
}

// mostPerCall bounds the waits of one publication, so that Envoy's main thread is not
// busy with them for long. The next publication has the rest.
const mostPerCall = 20_000

// publish moves the collected waits to the sink.
func (w *Waits) publish(sink Sink) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := uint32(mostPerCall)
	for name, pool := range w.pools {
		for outcome, label := range [...]string{Admitted, Refused} {
			for b := range pool[outcome] {
				n := min(pool[outcome][b], left)
				if n == 0 {
					continue
				}
				pool[outcome][b] -= n
				left -= n
				sink.Observe(Wait, middle(b), uint64(n), cmp.Or(name, NoPool), label)
			}
		}
	}
}
