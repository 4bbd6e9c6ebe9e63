package intake

import (
	"context"
	"slices"

	"google.golang.org/grpc"
)

// Registrar registers services with a gRPC server: each unary method becomes a stream, whose handler
// reads one message and sends one.
func (i *Intake) Registrar(to grpc.ServiceRegistrar) grpc.ServiceRegistrar { return registrar{to, i} }

type registrar struct {
	grpc.ServiceRegistrar
	i *Intake
}

// RegisterService implements grpc.ServiceRegistrar.
func (r registrar) RegisterService(d *grpc.ServiceDesc, impl any) {
	streams := *d
	streams.Methods, streams.Streams = nil, slices.Clone(d.Streams)
	for _, m := range d.Methods {
		r.i.unary["/"+d.ServiceName+"/"+m.MethodName] = true
		streams.Streams = append(streams.Streams, grpc.StreamDesc{StreamName: m.MethodName, Handler: r.i.handler(m),
			ServerStreams: true, ClientStreams: true})
	}
	r.ServiceRegistrar.RegisterService(&streams, impl)
}

// handler is a unary method as a stream's.
func (i *Intake) handler(m grpc.MethodDesc) grpc.StreamHandler {
	intercept := Chain(i.of.Unary)
	return func(srv any, s grpc.ServerStream) error {
		answer, err := call(m, srv, s, intercept)
		if err != nil {
			return err
		}
		return s.SendMsg(answer)
	}
}

// call reads and handles the message of a unary method. Its room is free before the answer is sent, for which
// the caller may take any time.
func call(m grpc.MethodDesc, srv any, s grpc.ServerStream, intercept grpc.UnaryServerInterceptor) (any, error) {
	if in, is := s.(*incoming); is {
		defer in.giveBack()
	}
	return m.Handler(srv, s.Context(), s.RecvMsg, intercept)
}

// Chain makes one interceptor of several, the first one outermost.
func Chain(all []grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, r any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		for _, one := range slices.Backward(all) {
			inner := next
			next = func(ctx context.Context, r any) (any, error) { return one(ctx, r, info, inner) }
		}
		return next(ctx, r)
	}
}
