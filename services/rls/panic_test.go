package rls

import (
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	api "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A panic fails its request alone, and is counted.
func TestAPanicFailsItsRequestAlone(t *testing.T) {
	s := newServer(t, shop, Options{})
	files := s.composer.files.Swap(nil)
	_, err := s.ShouldRateLimit(t.Context(), &api.RateLimitRequest{Domain: "shop",
		Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor("tenant=a")}})
	s.composer.files.Store(files)
	if status.Code(err) != codes.Internal || s.Stats().Panics != 1 {
		t.Errorf("%v, %d panics", err, s.Stats().Panics)
	}
	ask(t, s, "shop", descriptor("tenant=a"))
}
