package agentlink

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/proto/link"
)

// A panic ends one step only. A nil engine panics when it is asked for claims.
func TestPanicEndsOneEstimateOnly(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nobody")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		panics := 0
		c := New(Options{Socket: socket, Now: func() int64 { return 0 }, Log: func(string) {},
			RecoverPanic: func(string) {
				if recover() != nil {
					panics++
				}
			}})
		done := make(chan struct{})
		go func() { defer close(done); c.estimateWithoutAgent(ctx) }()
		time.Sleep(10*claimsEvery + claimsEvery/2)
		cancel()
		<-done
		if panics != 10 {
			t.Errorf("%d steps in 10 periods", panics)
		}
	})
}

// Without an agent no use is measured, so pools have no unused capacity until an agent sends shares again, also
// if there is no other gateway.
func TestNoUnusedCapacityWithoutAnAgent(t *testing.T) {
	b := newFixture(t)
	shares := &exchange.Shares{Epoch: 1, Pools: []exchange.PoolShare{{Pool: "api", IdleShare: .01, Unused: 1000}}}
	n := 0
	admitted := func(s *session) (admitted int) {
		s.send(configuration)
		await(s, func(h *link.Heartbeat) bool { return h.Revision == 3 })
		for range 20 {
			n++
			r := limiter.Request{Tenant: "acme", Client: fmt.Sprint("c", n), Pool: "api", Cost: 1}
			out := b.engine.Decide(b.client.o.Now(), &r)
			if out.Verdict == limiter.Wait {
				out, _ = b.engine.Enqueue(b.client.o.Now(), &r, uint64(n))
			}
			if out.Verdict == limiter.Admit {
				admitted++
			}
		}
		return admitted
	}
	s := b.accept(hello)
	s.send(shares)
	if got := admitted(s); got != 20 {
		t.Errorf("%d of 20 admitted of the unused capacity", got)
	}
	s.conn.Close()
	if got := admitted(b.accept(hello)); got > 1 {
		t.Errorf("%d of 20 admitted of an idle share of 0.01/s", got)
	}
}
