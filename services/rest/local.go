package rest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/wording"
)

// local calls services in this process. It is a grpc.ClientConnInterface for calls without streams.
type local struct {
	methods   map[string]method // by full name: /titrate.quota.v1alpha1.QuotaService/GetPool
	intercept grpc.UnaryServerInterceptor
}

// method is one of a service.
type method struct {
	grpc.MethodDesc
	impl any
}

func (l *local) register(d *grpc.ServiceDesc, impl any) {
	for _, m := range d.Methods {
		l.methods["/"+d.ServiceName+"/"+m.MethodName] = method{m, impl}
	}
}

// Invoke implements grpc.ClientConnInterface. Messages are handed over, not copied.
func (l *local) Invoke(ctx context.Context, name string, request, reply any, _ ...grpc.CallOption) error {
	m, is := l.methods[name]
	if !is {
		return status.Errorf(codes.Unimplemented, "%s is not served here", name)
	}
	if err := asked(ctx, request.(proto.Message)); err != nil {
		return err
	}
	if err := sameAsURL(ctx, request.(proto.Message)); err != nil {
		return err
	}
	// The gateway has put the caller's headers, its token too, where calls to etcd would take them on.
	ctx = metadata.NewOutgoingContext(ctx, metadata.MD{})
	answer, err := m.Handler(m.impl, ctx, func(into any) error {
		share(into.(proto.Message), request.(proto.Message))
		return nil
	}, l.intercept)
	if err != nil {
		return err
	}
	share(reply.(proto.Message), answer.(proto.Message))
	return nil
}

// NewStream implements grpc.ClientConnInterface.
func (l *local) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "streams are not served over HTTP")
}

// share gives one message the fields of another one of its type.
func share(to, from proto.Message) {
	into := to.ProtoReflect()
	from.ProtoReflect().Range(func(d protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		into.Set(d, v)
		return true
	})
}

// asked refuses what the gateway would pass over. That is parameters that a request does not
// have, and an update by PATCH of nothing, which the API would take for one of everything.
func asked(ctx context.Context, request proto.Message) error {
	r, is := ctx.Value(requestKey{}).(*http.Request)
	if !is {
		return nil
	}
	fields := request.ProtoReflect().Descriptor()
	for name, values := range r.URL.Query() {
		if r.Method == http.MethodPost && strings.Contains(r.URL.Path, ":") {
			return status.Errorf(codes.InvalidArgument, "query parameter %s: this request has none, say it in the body",
				wording.Quote(name))
		}
		if !has(fields, strings.Split(name, ".")) {
			return status.Errorf(codes.InvalidArgument, "query parameter %s: want one of %s", wording.Quote(name),
				parameters(fields))
		}
		if f := at(fields, strings.Split(name, ".")); f.Kind() == protoreflect.EnumKind {
			for _, text := range values { // the gateway takes any number
				if wrong := document.ExplainValue(text, f); wrong != "" {
					return status.Errorf(codes.InvalidArgument, "query parameter %s: %s", wording.Quote(name), wrong)
				}
			}
		}
	}
	if update, is := request.(interface{ GetUpdateMask() *fieldmaskpb.FieldMask }); is && r.Method == http.MethodPatch {
		return changes(update.GetUpdateMask())
	}
	return nil
}

// changes refuses a mask that names no field to change. The name and the etag in a body do not count: they name which
// state of which resource is changed.
func changes(mask *fieldmaskpb.FieldMask) error {
	if mask != nil {
		mask.Paths = slices.DeleteFunc(mask.Paths, func(path string) bool {
			return path == "" || path == "name" || path == "etag" // "": of an empty body
		})
	}
	if len(mask.GetPaths()) > 0 {
		return nil
	}
	return status.Error(codes.InvalidArgument, "the body has no field to change; PUT replaces all fields")
}

// has reports whether a path leads to a field that a query may say.
func has(d protoreflect.MessageDescriptor, path []string) bool {
	f := field(d, path[0])
	if f == nil || resource(f) || len(path) == 1 {
		return f != nil && !resource(f)
	}
	return f.Message() != nil && has(f.Message(), path[1:])
}

// resource reports whether a field holds a resource: it is in the body.
func resource(f protoreflect.FieldDescriptor) bool {
	return f.Message() != nil && f.Message().Fields().ByName("name") != nil
}

func field(d protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if f := d.Fields().ByJSONName(name); f != nil {
		return f
	}
	return d.Fields().ByName(protoreflect.Name(name))
}

// parameters lists what a query may say of a request.
func parameters(d protoreflect.MessageDescriptor) string {
	var names []string
	for i := range d.Fields().Len() {
		switch f := d.Fields().Get(i); {
		case f.Message() == nil || f.Message().FullName() == "google.protobuf.FieldMask":
			names = append(names, f.JSONName())
		case !resource(f):
			names = append(names, fmt.Sprintf("%s.FIELD", f.JSONName()))
		}
	}
	return strings.Join(names, ", ")
}
