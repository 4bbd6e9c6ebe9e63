//go:build !lockrank

package limiter

const lockRanked = false

// atLocks would let do run before each lock; without the build tag lockrank it cannot.
func atLocks(func(rank int)) (end func()) { return func() {} }
