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
	{errManyOverrides, codes.FailedPrecondition},
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
	var ceiling overCeiling
	if errors.As(err, &ceiling) {
		code = codes.PermissionDenied
	}
	return detailed(code, err, refusedChanges(err)...)
}

// maxDetails is the most that a status names one by one. Package intake leaves out what does not fit into the
// trailers that a client takes.
const maxDetails = 1000

// refusedChanges are details of the changes that an error is about.
func refusedChanges(err error) (details []protoadapt.MessageV1) {
	var all store.ChangeErrors
	var one *store.ChangeError
	if !errors.As(err, &all) && errors.As(err, &one) {
		all = store.ChangeErrors{one}
	}
	for _, c := range all[:min(len(all), maxDetails)] {
		details = append(details, &errdetails.ResourceInfo{ResourceName: c.Name, Description: c.Err.Error()})
	}
	return details
}

func badRequest(e *valid.Error) *errdetails.BadRequest {
	b := &errdetails.BadRequest{}
	for _, v := range e.Violations[:min(len(e.Violations), maxDetails)] {
		b.FieldViolations = append(b.FieldViolations,
			&errdetails.BadRequest_FieldViolation{Field: v.Field, Description: v.Message})
	}
	return b
}

func detailed(code codes.Code, err error, details ...protoadapt.MessageV1) error {
	s, e := grpcstatus.New(code, err.Error()).WithDetails(details...)
	if e != nil || len(details) == 0 {
		return grpcstatus.Error(code, err.Error())
	}
	return s.Err()
}
