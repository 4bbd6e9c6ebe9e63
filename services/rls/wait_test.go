package rls

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	api "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/enforcer"
	"github.com/titrate/titrate/services/rls/ratelimitconfig"
)

// descriptors are n of them, of n clients.
func descriptors(n int) []*ratelimitv3.RateLimitDescriptor {
	all := make([]*ratelimitv3.RateLimitDescriptor, n)
	for i := range all {
		all[i] = descriptor(fmt.Sprint("tenant=", i))
	}
	return all
}

func TestDescriptorsAreBounded(t *testing.T) {
	s := newServer(t, shop, Options{})
	for _, domain := range []string{"shop", Domain} {
		_, err := s.ShouldRateLimit(t.Context(), &api.RateLimitRequest{Domain: domain,
			Descriptors: descriptors(maxDescriptors + 1)})
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "has 1025 rate limit descriptors: at most 1024") {
			t.Errorf("%s: %v", domain, err)
		}
	}
	if n := s.Stats().Invalid; n != 2 {
		t.Errorf("%d counted", n)
	}
	if got := ask(t, s, "shop", descriptors(maxDescriptors)...); len(got.GetStatuses()) != maxDescriptors {
		t.Errorf("as many as allowed: %d statuses", len(got.GetStatuses()))
	}
}

// ending is a context whose deadline passes when it has been asked so many times.
type ending struct {
	context.Context
	left int
}

func (e *ending) Err() error {
	if e.left--; e.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// A request whose deadline passes while it is decided ends there, with an error, and is counted.
func TestDeadlinePassesWhileDeciding(t *testing.T) {
	for _, domain := range []string{"shop", Domain} {
		for _, left := range []int{0, 5, 25} {
			s, ctx := newServer(t, shop, Options{}), &ending{t.Context(), left}
			all := descriptors(20)
			_, err := s.ShouldRateLimit(ctx, &api.RateLimitRequest{Domain: domain, Descriptors: all})
			if domain == Domain && left == 25 { // they are decided in 20 looks at it
				continue
			}
			if status.Code(err) != codes.DeadlineExceeded || s.Stats().Abandoned != 1 || s.Stats().Requests != 0 {
				t.Errorf("%s, %d looks at the deadline: %v, %+v", domain, left, err, s.Stats())
			}
			charged := 0
			for i := range all {
				a := ask(t, s, "shop", withHits(fmt.Sprint("tenant=", i), 0))
				charged += 3 - int(a.GetStatuses()[0].GetLimitRemaining())
			}
			if most := max(0, left-20); charged > most {
				t.Errorf("%s, %d looks at the deadline: %d charged, want %d at most", domain, left, charged, most)
			}
		}
	}
}

// The descriptors of a request wait for their owners at the same time, so unreachable owners hold it for as long as one
// of them does.
func TestDescriptorsWaitTogether(t *testing.T) {
	s := newServer(t, shop, Options{})
	engine := s.composer.engine
	engine.LinkTokens(enforcer.Now(), true)
	engine.SetSums(enforcer.Now(), &exchange.Sums{Full: true, Replicas: 2, Weight: 1, TotalWeight: 2, Exact: true,
		Lag: 50 * time.Millisecond})
	answer := make(chan *api.RateLimitResponse)
	go func() {
		r, _ := s.ShouldRateLimit(t.Context(), &api.RateLimitRequest{Domain: "shop", Descriptors: descriptors(3)})
		answer <- r
	}()
	for stats, end := (limiter.Stats{}), time.Now().Add(time.Minute); stats.Exact.Waited < 3; {
		if engine.Stats(enforcer.Now(), &stats); time.Now().After(end) {
			t.Fatalf("%d of 3 descriptors wait", stats.Exact.Waited)
		}
		runtime.Gosched()
	}
	s.enforcer.Stop() // it lets through what waits
	if got := answers(<-answer); got != "OK OK/3 OK/3 OK/3" {
		t.Errorf("answered %s", got)
	}
}

// The limits that the descriptors of one request bring along change the engine's configuration once.
func TestOwnLimitsAreLearntTogether(t *testing.T) {
	changes := 0
	engine := limiter.New(limiter.Options{Keys: 10, Wants: func(limiter.Wanted) { changes++ }})
	c := newComposer(engine, 1, false)
	if err := c.load(&ratelimitconfig.Config{}); err != nil {
		t.Fatal(err)
	}
	one := changes
	all := descriptors(maxDescriptors)
	for i, d := range all {
		d.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(i / 2),
			Unit: typev3.RateLimitUnit_DAY}
	}
	for range 2 {
		c.learn(all)
	}
	if changes != 2*one {
		t.Errorf("%d configurations were put in force, want 1", changes/one-1)
	}
	if name, ok := c.override(maxDescriptors/2-1, ratelimitconfig.Day); !ok {
		t.Errorf("the engine does not know %s", name)
	}
}
