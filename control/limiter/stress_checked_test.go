//go:build lockrank

package limiter

import (
	"strings"
	"sync"
	"testing"
)

const lockRanked = true

// atLocks lets do run before each lock until end is called.
func atLocks(do func(rank int)) (end func()) {
	beforeLock.Store(&do)
	return func() { beforeLock.Store(nil) }
}

// The check of the order finds what it is there to find.
func TestLocksOutOfOrderPanic(t *testing.T) {
	var flow mutex[flowRank]
	var state, other mutex[stateRank]
	within(t, 10e9, func() {
		flow.Lock()
		state.Lock()
		state.Unlock()
		flow.Unlock()
		for _, wrong := range []sync.Locker{&flow, &other} {
			state.Lock()
			func() {
				defer func() {
					if p, ok := recover().(string); !ok || !strings.Contains(p, "rank") {
						t.Errorf("%T after a lock of a state: %v, want a panic", wrong, p)
					}
				}()
				wrong.Lock()
			}()
			state.Unlock()
		}
	})
}
