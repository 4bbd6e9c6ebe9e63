//go:build lockrank

package limiter

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// mutex is a lock that panics when a thread takes it out of order.
type mutex[R rank] struct{ mu sync.Mutex }

// beforeLock, if set, is called before each Lock: a test's chance to let others run,
// or to panic.
var beforeLock atomic.Pointer[func(rank int)]

// heldRanks are the ranks that each goroutine holds, in order: *[]int by its number.
var heldRanks sync.Map

func (m *mutex[R]) Lock() {
	if f := beforeLock.Load(); f != nil {
		(*f)(rankOf[R]())
	}
	m.enter()
	m.mu.Lock()
}

func (m *mutex[R]) TryLock() bool {
	if !m.mu.TryLock() {
		return false
	}
	m.enter()
	return true
}

func (m *mutex[R]) Unlock() {
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

func (m *mutex[R]) enter() {
	v, _ := heldRanks.LoadOrStore(goroutine(), new([]int))
	ranks := v.(*[]int)
	for _, r := range *ranks {
		if r >= rankOf[R]() {
			panic(fmt.Sprintf("limiter: a lock of rank %d is taken while one of rank %d is held; lock.go has the order", rankOf[R](), r))
		}
	}
	*ranks = append(*ranks, rankOf[R]())
}

func rankOf[R rank]() int {
	var r R
	return r.rank()
}

// goroutine is the number of the calling goroutine, as its stack's first line has it.
func goroutine() string {
	var b [64]byte
	n := runtime.Stack(b[:], false)
	return string(bytes.Fields(b[:n])[1])
}
