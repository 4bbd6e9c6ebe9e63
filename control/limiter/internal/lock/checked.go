//go:build lockrank

package lock

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// Mutex is a lock that panics when a thread locks it out of order.
type Mutex[R Rank] struct{ mu sync.Mutex }

// Checked says that the order of the locks is checked.
const Checked = true

var beforeLock atomic.Pointer[func(rank int)]

// Before has do called before each Lock until end is called: a test can let other
// threads run there, or panic.
func Before(do func(rank int)) (end func()) {
	beforeLock.Store(&do)
	return func() { beforeLock.Store(nil) }
}

// heldRanks are the ranks that each goroutine holds, in order: *[]int by its number.
var heldRanks sync.Map

func (m *Mutex[R]) Lock() {
	if f := beforeLock.Load(); f != nil {
		(*f)(rankOf[R]())
	}
	m.enter()
	m.mu.Lock()
}

func (m *Mutex[R]) TryLock() bool {
	if !m.mu.TryLock() {
		return false
	}
	m.enter()
	return true
}

func (m *Mutex[R]) Unlock() {
	m.mu.Unlock()
	me := goroutine()
	v, _ := heldRanks.Load(me)
	ranks := v.(*[]int)
	for i := len(*ranks) - 1; i >= 0; i-- {
		if (*ranks)[i] == rankOf[R]() {
			*ranks = append((*ranks)[:i], (*ranks)[i+1:]...)
			break
		}
	}
	if len(*ranks) == 0 {
		heldRanks.Delete(me)
	}
}

func (m *Mutex[R]) enter() {
	v, _ := heldRanks.LoadOrStore(goroutine(), new([]int))
	ranks := v.(*[]int)
	for _, r := range *ranks {
		if r >= rankOf[R]() {
			panic(fmt.Sprintf("limiter: a lock of rank %d is locked while one of rank %d is held; "+
				"the order is in package lock", rankOf[R](), r))
		}
	}
	*ranks = append(*ranks, rankOf[R]())
}

func rankOf[R Rank]() int {
	var r R
	return r.rank()
}

// goroutine is the number of the calling goroutine, as its stack's first line has it.
func goroutine() string {
	var b [64]byte
	n := runtime.Stack(b[:], false)
	return string(bytes.Fields(b[:n])[1])
}
