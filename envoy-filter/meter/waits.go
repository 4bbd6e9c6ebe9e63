package meter

import (
	"math/bits"
	"sync"
	"time"

	"github.com/titrate/titrate/control/limiter"
)

// Waits gathers how long requests were held, per pool and outcome, until they are
// published: the ticker adds, Envoy's main thread takes. Buckets are four to an
// octave of milliseconds, so that a published wait is off by less than an eighth and
// half a millisecond.
type Waits struct {
	mu    sync.Mutex
	pools map[string]*[2]waits // by outcome: admitted, refused
}

// waits counts by bucket what is not published yet.
type waits [buckets]uint32

const (
	perOctave = 4
	// buckets reach to 2^17 ms; no queue lets wait for more than a minute.
	buckets = 18 * perOctave
)

// Refused is the outcome of a held request that was refused in the end.
const Refused = "refused"

// Add counts what became of held requests.
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

// bucket finds a wait's bucket: the whole milliseconds up to 7, then four to an
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

// middle is the wait that stands for a bucket, ms.
func middle(bucket int) uint64 {
	if bucket < 2*perOctave {
		return uint64(bucket)
	}
	octave, quarter := bucket/perOctave+1, bucket%perOctave
	width := uint64(1) << (octave - 2)
	return uint64(perOctave+quarter)*width + (width-1)/2
}

// atOnce is how many waits one publication publishes at most, so that Envoy's main
// thread is never busy with them for long; the rest waits for the next.
const atOnce = 20_000

// publish takes what was gathered to the sink.
func (w *Waits) publish(sink Sink) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := uint32(atOnce)
	for name, pool := range w.pools {
		for outcome, label := range [...]string{Admitted, Refused} {
			for b := range pool[outcome] {
				n := min(pool[outcome][b], left)
				if n == 0 {
					continue
				}
				pool[outcome][b] -= n
				left -= n
				sink.Observe(Wait, middle(b), uint64(n), name, label)
			}
		}
	}
}
