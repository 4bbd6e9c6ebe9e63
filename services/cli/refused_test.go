package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/intake"
	"github.com/titrate/titrate/services/store/resource"
)

// refusing is an API whose applies are refused for each resource.
type refusing struct {
	quotav1.UnimplementedQuotaServiceServer
}

func (refusing) Apply(_ context.Context, r *quotav1.ApplyRequest) (*quotav1.ApplyResponse, error) {
	var details []protoadapt.MessageV1
	for _, one := range r.GetResources() {
		details = append(details, &errdetails.ResourceInfo{ResourceName: resource.Unwrap(one).GetName(),
			Description: "no"})
	}
	s, err := status.New(codes.PermissionDenied, "spiffe://x may not call Apply").WithDetails(details...)
	if err != nil {
		return nil, err
	}
	return nil, s.Err()
}

// An apply that is refused for 400 resources names the place of each, behind a server that bounds its trailers.
func TestEachRefusedDocumentIsNamed(t *testing.T) {
	in := intake.New(intake.Options{Log: slog.New(slog.DiscardHandler),
		Bounds: func(string) intake.Bounds { return intake.Bounds{Bytes: 1 << 20, Entries: 10_000} }})
	server := grpc.NewServer(in.ServerOptions()...)
	quotav1.RegisterQuotaServiceServer(in.Registrar(server), refusing{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	var documents strings.Builder
	for i := range 400 {
		fmt.Fprintf(&documents, "---\napiVersion: titrate.dev/v1alpha1\nkind: Tenant\nname: tenants/t%d\n", i)
	}
	code, _, errs := titrate(t, listener.Addr().String(), documents.String(), "apply", "-f", "-")
	if got := strings.Count(errs, ": no\n"); code == 0 || got != 400 ||
		!strings.Contains(errs, "spiffe://x may not call Apply") {
		t.Errorf("status %d, %d named: %.500s", code, got, errs)
	}
}
