// Package pause waits for a time, which the end of a context cuts short.
package pause

import (
	"context"
	"time"
)

// For waits for a time or the end of ctx, and reports whether ctx still runs.
func For(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
