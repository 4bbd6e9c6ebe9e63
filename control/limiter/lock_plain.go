//go:build !lockrank

package limiter

import "sync"

// mutex is a lock of a rank.
type mutex[R rank] struct{ sync.Mutex }
