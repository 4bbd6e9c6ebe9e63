package intake_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/intake"
)

// A client that takes 8 KiB of metadata, as clients in Java and C++ do by default, gets every status. The
// message says how many details are left out. A call that asks for more details gets them.
func TestAStatusFitsIntoTheTrailers(t *testing.T) {
	s := serveWith(t, intake.Options{Bounds: ofLongMessages}, grpc.WithMaxHeaderListSize(8<<10))
	all := serveWith(t, intake.Options{Bounds: ofLongMessages})
	var infos, violations []protoadapt.MessageV1
	bad := &errdetails.BadRequest{}
	for i := range 1000 {
		infos = append(infos, &errdetails.ResourceInfo{ResourceName: fmt.Sprintf("tenants/t%d", i), Description: "no"})
		bad.FieldViolations = append(bad.FieldViolations,
			&errdetails.BadRequest_FieldViolation{Field: fmt.Sprintf("resources[%d].x", i), Description: "bad"})
	}
	violations = append(violations, bad)
	for _, c := range []struct {
		what, message    string
		details          []protoadapt.MessageV1
		fewest, complete int // named
	}{
		{"resources", "no", infos, 40, 1000},
		{"violations", "no", violations, 100, 1000},
		{"a long message", strings.Repeat("x", 60<<10), infos, 20, 1000},
		{"a long message alone", strings.Repeat("ü", 8<<10), nil, 0, 0},
		{"special bytes", strings.Repeat("ü", 400), infos, 10, 1000},
		{"few", "no", infos[:3], 3, 3},
	} {
		failure := func() error {
			st, err := status.New(codes.FailedPrecondition, c.message).WithDetails(c.details...)
			if c.details == nil {
				return status.Error(codes.FailedPrecondition, c.message)
			} else if err != nil {
				t.Error(err)
			}
			return st.Err()
		}
		s.api.failure, all.api.failure = failure, failure
		_, err := quotav1.NewQuotaServiceClient(s.conn).GetTenant(t.Context(), &quotav1.GetTenantRequest{})
		told := c.fewest == c.complete || strings.Contains(err.Error(), fmt.Sprintf("of %d", c.complete))
		if status.Code(err) != codes.FailedPrecondition || named(err) < c.fewest || !told {
			t.Errorf("%s: %d named by %.2000v, want %d at least", c.what, named(err), err, c.fewest)
		}
		ctx := metadata.AppendToOutgoingContext(t.Context(), intake.DetailsKey, "1000000")
		_, err = quotav1.NewQuotaServiceClient(all.conn).GetTenant(ctx, &quotav1.GetTenantRequest{})
		if !strings.HasSuffix(err.Error(), c.message) || named(err) != c.complete {
			t.Errorf("%s, asked for more: %d named by %.100v, want %d", c.what, named(err), err, c.complete)
		}
	}
}

// named counts what the details of an error name.
func named(err error) (n int) {
	for _, d := range status.Convert(err).Details() {
		if bad, is := d.(*errdetails.BadRequest); is {
			n += len(bad.GetFieldViolations())
			continue
		}
		n++
	}
	return n
}
