package rest

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/wording"
)

// mostExplained is the largest body whose mistakes are looked for, in bytes: as a tree it takes a hundred times its
// length. Of a larger one protobuf's first complaint has to do.
const mostExplained = 64 << 10

// explained returns what is wrong with a body that could not be read: in the sentences of documents, if they have one
// for it.
func explained(text []byte, into any, err error) error {
	m := message(into)
	if m == nil || len(text) > mostExplained {
		return err
	}
	if said := document.Explain("body", text, m); said != nil {
		return errors.New(strings.ReplaceAll(said.Error(), "\n", "; "))
	}
	return err
}

// explainedQuery returns what is wrong with the parameters of a query that the gateway could not read, in the
// sentences of documents; else the error itself.
func explainedQuery(ctx context.Context, r *http.Request, err error) error {
	name, known := runtime.RPCMethod(ctx)
	if !known || status.Code(err) != codes.InvalidArgument {
		return err
	}
	found, e := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(
		strings.ReplaceAll(strings.TrimPrefix(name, "/"), "/", ".")))
	method, is := found.(protoreflect.MethodDescriptor)
	if e != nil || !is {
		return err
	}
	if wrong := explainedPath(ctx, r, method.Input()); wrong != nil {
		return wrong
	}
	query := r.URL.Query()
	for _, key := range slices.Sorted(maps.Keys(query)) {
		f := at(method.Input(), strings.Split(key, "."))
		if f == nil {
			continue
		}
		for _, text := range query[key] {
			if wrong := document.ExplainValue(text, f); wrong != "" {
				return status.Errorf(codes.InvalidArgument, "query parameter %s: %s", wording.Quote(key), wrong)
			}
		}
	}
	return err
}

// explainedPath returns what is wrong with a field of the request that is a part of the URL's path, nil if nothing is.
func explainedPath(ctx context.Context, r *http.Request, d protoreflect.MessageDescriptor) error {
	pattern, known := runtime.HTTPPathPattern(ctx)
	given := strings.Split(r.URL.Path, "/")
	for i, part := range strings.Split(pattern, "/") {
		name, _, is := strings.Cut(strings.TrimPrefix(part, "{"), "}")
		if !known || !is || i >= len(given) {
			continue
		}
		text, _, _ := strings.Cut(given[i], ":")
		if f := at(d, strings.Split(name, ".")); f != nil {
			if wrong := document.ExplainValue(text, f); wrong != "" {
				return status.Errorf(codes.InvalidArgument, "%s in the path: %s", name, wrong)
			}
		}
	}
	return nil
}

// at is the field that a path leads to, nil if there is none.
func at(d protoreflect.MessageDescriptor, path []string) protoreflect.FieldDescriptor {
	f := field(d, path[0])
	if f == nil || len(path) == 1 {
		return f
	}
	if f.Message() == nil {
		return nil
	}
	return at(f.Message(), path[1:])
}
