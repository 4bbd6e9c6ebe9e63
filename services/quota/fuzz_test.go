package quota_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/store/storetest"
)

// FuzzRequests calls each method of the API with requests of any bytes, on a real store: the answer is a
// message, or a status that does not blame the server.
func FuzzRequests(f *testing.F) {
	pool := &quotav1.Pool{Name: "pools/api", Capacity: 300}
	tenant := &quotav1.Tenant{Name: "tenants/acme", Weight: 2}
	limit := &quotav1.Limit{Name: "tenants/acme/limits/l", Rate: "5/s"}
	methods := quotav1.QuotaService_ServiceDesc.Methods
	for _, m := range []proto.Message{&quotav1.CreatePoolRequest{Pool: pool}, &quotav1.ApplyRequest{Resources: []*quotav1.Resource{
		envelope(pool), envelope(tenant), envelope(limit), envelope(&quotav1.Quota{Name: "tenants/acme/quotas/api"})}},
		&quotav1.GetPoolRequest{Name: "pools/api"}, &quotav1.ListPoolsRequest{PageSize: 2}} {
		text, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		for i := range methods { // fields of the same number are often the same
			f.Add(uint8(i), text)
		}
	}
	server := quota.New(storetest.Open(f), &present{
		decisions: &quotav1.FindDecisionsResponse{}, rehearsal: &quota.Rehearsal{}})
	f.Fuzz(func(t *testing.T, which uint8, text []byte) {
		m := methods[int(which)%len(methods)]
		decoded := false
		read := func(to any) error {
			err := proto.Unmarshal(text, to.(proto.Message))
			decoded = err == nil
			return err
		}
		out, err := m.Handler(server, context.Background(), read, nil)
		switch code := status.Code(err); {
		case !decoded:
		case err == nil:
			if _, err := proto.Marshal(out.(proto.Message)); err != nil {
				t.Errorf("%s: %v", m.MethodName, err)
			}
		case code == codes.Internal || code == codes.Unknown:
			t.Errorf("%s: %v", m.MethodName, err)
		}
	})
}
