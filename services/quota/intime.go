package quota

import (
	"context"
	"time"

	"google.golang.org/grpc"
)

// margin is how long before the caller's deadline a request gives up on etcd, so that
// the answer, which says what is missing, still arrives: an eighth of the time that
// the caller grants, half a second at most. Longer gives a slow etcd less time.
func margin(granted time.Duration) time.Duration { return min(granted/8, 500*time.Millisecond) }

// InTime makes a call end before its caller gives up. Without it a request that waits
// for etcd several times ends at the caller as a deadline that names no cause.
func InTime(ctx context.Context, r any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-margin(time.Until(deadline))))
		defer cancel()
	}
	return next(ctx, r)
}
