package link

import (
	"io"
	"sync"
	"testing"

	"github.com/titrate/titrate/control/exchange"
)

// One message may be on its way to several peers at once.
func TestWritersShareAMessage(t *testing.T) {
	sums := &exchange.Sums{Full: true, Replicas: 3, TotalWeight: 3,
		Flows: []exchange.FlowSum{{Key: 1, Claims: 2}}, Keys: []exchange.KeySum{{Key: 7, Spent: 1}}}
	shares := &exchange.Shares{Stale: true, Flows: []exchange.Share{{Tenant: "a", Pool: "p", Share: 3}}}
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			w := NewWriter(io.Discard)
			for range 100 {
				for _, m := range []Message{sums, shares} {
					if err := w.Write(m); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	writers.Wait()
}
