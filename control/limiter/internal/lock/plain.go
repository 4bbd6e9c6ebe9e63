//go:build !lockrank

package lock

import "sync"

// Checked says that the order of the locks is checked.
const Checked = false

// Mutex is a lock of a rank.
type Mutex[R Rank] struct{ sync.Mutex }

// Before does nothing without the build tag lockrank.
func Before(func(rank int)) (end func()) { return func() {} }
