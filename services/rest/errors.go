package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/wording"
)

// refuse writes the error of a call. It is a runtime.ErrorHandlerFunc.
func refuse(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request,
	err error) {
	switch b, is := r.Body.(*limited); {
	case is && b.refused != nil:
		w.Header().Set("Connection", "close") // else net/http reads a part of the body before it answers
		write(w, of(b.refused))
		return
	case is && b.over != nil:
		write(w, &quotav1.Error{Status: http.StatusRequestEntityTooLarge, Code: name(codes.InvalidArgument),
			Message: b.over.Error()})
		return
	}
	write(w, of(explainedQuery(ctx, r, err)))
}

// of is the error of a call for a person and for a program.
func of(err error) *quotav1.Error {
	s := status.Convert(err)
	out := &quotav1.Error{Status: int32(runtime.HTTPStatusFromCode(s.Code())), Code: name(s.Code()),
		Message: plain(s.Message())}
	var custom *runtime.HTTPStatusError
	if errors.As(err, &custom) {
		out.Status, out.Code = int32(custom.HTTPStatus), name(codes.InvalidArgument)
	}
	for _, detail := range s.Details() {
		if bad, is := detail.(*errdetails.BadRequest); is {
			for _, v := range bad.GetFieldViolations() {
				out.Fields = append(out.Fields, &quotav1.FieldError{Field: v.GetField(), Message: v.GetDescription()})
			}
		}
	}
	return out
}

// name returns the name of a code in the API's documents.
func name(c codes.Code) string { return code.Code(c).String() }

// plain takes the mark of protobuf's own errors away: the body has no protobuf.
func plain(message string) string {
	if rest, is := strings.CutPrefix(message, "proto:"); is {
		return "body: " + strings.TrimLeftFunc(rest, unicode.IsSpace)
	}
	return message
}

func forbidden(format string, args ...any) *quotav1.Error {
	return &quotav1.Error{Status: http.StatusForbidden, Code: name(codes.PermissionDenied),
		Message: fmt.Sprintf(format, args...)}
}

// unrouted answers a path or a method that nothing has. It is a runtime.RoutingErrorHandlerFunc.
func unrouted(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request,
	status int) {
	e := &quotav1.Error{Status: int32(status), Code: name(codes.NotFound),
		Message: fmt.Sprintf("nothing is at %s; /openapi.json lists the paths", wording.Cut(r.URL.Path))}
	if status == http.StatusMethodNotAllowed {
		e.Code = name(codes.Unimplemented)
		e.Message = fmt.Sprintf("%s does nothing at %s; /openapi.json lists what does", wording.Cut(r.Method),
			wording.Cut(r.URL.Path))
	}
	write(w, e)
}

// write writes an error as the answer.
func write(w http.ResponseWriter, e *quotav1.Error) {
	if e.GetStatus() == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	e.Message = strings.ToValidUTF8(e.GetMessage(), "?") // it may repeat what the caller has sent
	text, err := protojson.Marshal(e)
	if err == nil {
		text, err = line(text)
	}
	if err != nil {
		text = []byte("{}\n")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(e.GetStatus()))
	_, _ = w.Write(text)
}

// wellFormed says in which line a text is not JSON.
func wellFormed(text []byte) error {
	var raw json.RawMessage
	err := json.Unmarshal(text, &raw)
	var wrong *json.SyntaxError
	if errors.As(err, &wrong) {
		return fmt.Errorf("body: line %d: %w", 1+bytes.Count(text[:wrong.Offset], []byte("\n")), wrong)
	}
	return err
}
