package quota

import (
	"context"
	"errors"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/titrate/titrate/services/quota/valid"
	"github.com/titrate/titrate/services/store"
)

var codeOf = []struct {
	err  error
	code codes.Code
}{
	{store.ErrNotFound, codes.NotFound},
	{store.ErrExists, codes.AlreadyExists},
	{store.ErrEtag, codes.Aborted},
	{store.ErrRevision, codes.Aborted},
	{store.ErrOwned, codes.FailedPrecondition},
	{store.ErrNoHistory, codes.FailedPrecondition},
	{store.ErrReference, codes.FailedPrecondition},
	{store.ErrInUse, codes.FailedPrecondition},
	{store.ErrRequest, codes.FailedPrecondition},
	{errTooMany, codes.FailedPrecondition},
	{store.ErrTooLarge, codes.InvalidArgument},
	{store.ErrBadChange, codes.InvalidArgument},
	{store.ErrCorrupt, codes.DataLoss},
	{store.ErrHeld, codes.FailedPrecondition},
	{store.ErrUnavailable, codes.Unavailable},
	{context.Canceled, codes.Canceled},
}

// status turns an error of the store or of a check into a gRPC status, with the
// field or the resource in its details. A status stays what it is.
func status(err error) error {
	// Not errors.As: a status that etcd's client wrapped is not ours to pass on.
	if _, is := err.(interface{ GRPCStatus() *grpcstatus.Status }); is || err == nil {
		return err
	}
	var invalid *valid.Error
	if errors.As(err, &invalid) {
		return detailed(codes.InvalidArgument, err, badRequest(invalid))
	}
	code := codes.Internal
	for _, c := range codeOf {
		if errors.Is(err, c.err) {
			code = c.code
			break
		}
	}
	var change *store.ChangeError
	if errors.As(err, &change) {
		return detailed(code, err, &errdetails.ResourceInfo{ResourceName: change.Name, Description: change.Err.Error()})
	}
	return grpcstatus.Error(code, err.Error())
}

func badRequest(e *valid.Error) *errdetails.BadRequest {
	b := &errdetails.BadRequest{}
	for _, v := range e.Violations {
		b.FieldViolations = append(b.FieldViolations,
			&errdetails.BadRequest_FieldViolation{Field: v.Field, Description: v.Message})
	}
	return b
}

func detailed(code codes.Code, err error, detail protoadapt.MessageV1) error {
	s, e := grpcstatus.New(code, err.Error()).WithDetails(detail)
	if e != nil {
		return grpcstatus.Error(code, err.Error())
	}
	return s.Err()
}
