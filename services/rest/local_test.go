package rest

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"
)

// What a caller sends with a request, its token too, does not travel on with the calls that the
// service makes, such as those to etcd.
func TestHeadersOfCallersStayHere(t *testing.T) {
	var onward metadata.MD
	handle := func(_ any, ctx context.Context, _ func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		onward, _ = metadata.FromOutgoingContext(ctx)
		return &emptypb.Empty{}, nil
	}
	l := &local{methods: map[string]method{}}
	l.register(&grpc.ServiceDesc{ServiceName: "s", Methods: []grpc.MethodDesc{{MethodName: "M", Handler: handle}}}, nil)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer secret", "token", "of etcd")
	if err := l.Invoke(ctx, "/s/M", &emptypb.Empty{}, &emptypb.Empty{}); err != nil {
		t.Fatal(err)
	}
	if len(onward) > 0 {
		t.Errorf("%v goes on", onward)
	}
}
