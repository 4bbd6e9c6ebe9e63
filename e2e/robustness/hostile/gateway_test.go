package hostile

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/liar"
	"github.com/titrate/titrate/proto/link"
	"github.com/titrate/titrate/services/agent/linkserver"
)

// receiver is an agent that takes what a gateway sends.
type receiver struct {
	mu     sync.Mutex
	kinds  map[string]int
	claims map[float64]bool
	named  bool // othersKey
}

// othersKey is a key that other gateways use, of a client that the hostile one does not have.
const othersKey = 0x123456789

func (r *receiver) Connected(c *linkserver.Conn) {
	c.Send(&config.Config{Revision: 1, Seed: 5, Pools: []config.Pool{{Name: pool, Capacity: 100}},
		Tenants: []config.Tenant{{Name: "acme", Weight: 1,
			Limits: []config.Limit{{Name: "each", Rate: 10, Burst: 10, Precision: config.Exact}}}}})
	c.Send(&exchange.Sums{Full: true, Replicas: 3, Weight: 1, TotalWeight: 3, Lag: 100 * time.Millisecond,
		Keys: []exchange.KeySum{{Key: othersKey, Claims: 5, Admitted: 100, Spent: 3, Epoch: 1}}})
}

func (r *receiver) Received(c *linkserver.Conn, m link.Message) {
	if _, is := m.(*link.Heartbeat); is {
		c.Send(&link.Heartbeat{})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kinds[fmt.Sprintf("%T", m)]++
	if claims, is := m.(*exchange.Claims); is {
		for i := range claims.Keys {
			r.claims[claims.Keys[i].Claim] = true
			r.named = r.named || claims.Keys[i].Key == othersKey
		}
	}
}

func (r *receiver) ConfigSent(*linkserver.Conn, int64, error) {}
func (r *receiver) Disconnected(*linkserver.Conn)             {}

// It links as a gateway with requests of its clients, and sends false messages of each kind, but none about keys of
// others. Each wrong beginning of a link is refused.
func TestAHostileGatewayLies(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	r := &receiver{kinds: map[string]int{}, claims: map[float64]bool{}}
	s, err := linkserver.Listen(linkserver.Options{Path: socket, Agent: "a", Log: slog.New(slog.DiscardHandler)}, r)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.Serve(ctx); err != nil {
			t.Error(err)
		}
	})
	var failed error
	all.Go(func() { failed = runGateway(ctx, "liar", socket, []client{{"acme", "a"}, {"acme", "b"}}, 1) })
	has := func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, path := range newRelay("", 1).fields {
			if r.kinds[fmt.Sprintf("%T", liar.NewMessage(path))] < 5 {
				return false
			}
		}
		return len(r.claims) >= 10 && s.Stats().Refused >= 5
	}
	for deadline := time.Now().Add(time.Minute); !has() && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if cancel(); !has() {
		t.Errorf("received %v, %d numbers of a claim; %d refused", r.kinds, len(r.claims), s.Stats().Refused)
	}
	if all.Wait(); failed != nil {
		t.Error(failed)
	}
	if r.named {
		t.Error("it names a key of a client that it does not have")
	}
}
