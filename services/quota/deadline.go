package quota

import (
	"context"
	"time"

	"google.golang.org/grpc"
)

// replyTime returns the time before the caller's deadline at which a request stops waiting for etcd, so that the
// answer with the cause still arrives. It is an eighth of the granted time, at most half a second. Longer gives a
// slow etcd less time.
func replyTime(granted time.Duration) time.Duration { return min(granted/8, 500*time.Millisecond) }

// InTime ends a call shortly before its caller's deadline. Without it, a request that waits
// for etcd several times would fail at the caller with a deadline that names no cause.
func InTime(ctx context.Context, r any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-replyTime(time.Until(deadline))))
		defer cancel()
	}
	return next(ctx, r)
}
