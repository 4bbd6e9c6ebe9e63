package limiter

import (
	"bytes"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/titrate/titrate/control/config"
)

// Workers that admit share no lock: no goroutine ever waited for another in this
// package while eight of them admitted and the ticker ticked between them.
func TestNoLockOnTheAdmitPath(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes unlocking slow")
	}
	const workers, each, ticks = 8, 100_000, 250
	e := New(Options{Keys: 1 << 14})
	mustApply(t, e, simple(1e12, config.Queue{Law: config.DropTail, DelayTarget: 1e9},
		config.Limit{Name: "l", Rate: 1e6, Burst: 1e9}))
	rs := make([]Request, 1000)
	for i := range rs {
		rs[i] = Request{Tenant: "a", Client: "client-" + string(rune('a'+i%26)) + string(rune('a'+i/26)), Pool: "api",
			Cost: 1}
		e.Decide(sec, &rs[i]) // the first request of a flow makes it
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(workers))
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(1))
	before := waits(t)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			now := 2 * sec
			for i := range each {
				now += 2000
				if i%(each/ticks) == 0 && w == 0 {
					e.Tick(now, nil)
				}
				if out := e.Decide(now, &rs[(i*7+w)%len(rs)]); out.Verdict != Admit {
					t.Errorf("request %d of worker %d: %+v", i, w, out)
					return
				}
			}
		})
	}
	all.Wait()
	if after := waits(t); after != before {
		t.Errorf("admitting workers waited for a lock:\n%s", after)
	}
}

// waits are the stacks of the mutex profile that touch this package's engine. The
// runtime's own locks are in that profile too (a goroutine that needs a larger stack may
// wait for the heap). They are not ours, so only locks of package sync count.
func waits(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	if err := pprof.Lookup("mutex").WriteTo(&b, 1); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, stack := range strings.Split(b.String(), "\n\n") {
		if strings.Contains(stack, "Mutex).") && strings.Contains(stack, "limiter.(*") {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}

// What each request changes is in one line of the cache.
func TestHotFieldsAreInOneLine(t *testing.T) {
	e := New(Options{})
	mustApply(t, e, simple(100, config.Queue{}))
	e.Decide(sec, &Request{Tenant: "a", Pool: "api"})
	f := e.live()[0]
	const line = 64
	begin, size := uintptr(unsafe.Pointer(f)), unsafe.Sizeof(f.counts.admitted)
	end := uintptr(unsafe.Pointer(&f.counts.admitted)) + size
	if begin/line != (end-1)/line {
		t.Errorf("credit, held, active and the count of admissions end %d bytes after the start of a line of %d",
			begin%line+end-begin, line)
	}
}
