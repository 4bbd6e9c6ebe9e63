//go:build lockrank

package lock

import (
	"strings"
	"sync"
	"testing"
)

// The check of the order finds what it is there to find.
func TestLocksOutOfOrderPanic(t *testing.T) {
	var flow Mutex[Flow]
	var state, other Mutex[State]
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
}
