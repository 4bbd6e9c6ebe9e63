package link

import (
	"io"
	"sync"
	"testing"
)

// One message may be on its way to several peers at once.
func TestWritersShareAMessage(t *testing.T) {
	sums := &Sums{Replicas: 3, TotalWeight: 3, Flows: []FlowSum{{Key: 1, Claims: 2}}, Keys: []KeySum{{Key: 7, Spent: 1}}}
	shares := &Shares{Stale: true, Flows: []Share{{Tenant: "a", Pool: "p", Share: 3}}}
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
