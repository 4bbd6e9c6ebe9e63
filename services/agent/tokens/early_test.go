package tokens

import (
	"fmt"
	"testing"
	"time"
)

// A gateway asks about keys before it is sent their owners, and begins a new session when it is. The owner may give the
// bucket to the session before. So it is sent the new session at once; otherwise it recalls the bucket in vain when
// another gateway asks, and the ledger decides that gateway's requests.
func TestGatewayAsksBeforeItKnowsTheOwners(t *testing.T) {
	const keys = 20
	w := newInstallation(3)
	for i := range w.agents {
		w.start(i)
	}
	w.run(100 * time.Millisecond)
	for k := range keys {
		w.gates[0].request(fmt.Sprintf("c-%d", k))
	}
	w.run(5 * time.Second)
	before := w.unanswered()
	if before == 0 {
		t.Fatal("owners have answered at once: this tests nothing")
	}
	for k := range keys {
		w.gates[1].request(fmt.Sprintf("c-%d", k))
		w.run(20 * time.Millisecond)
	}
	w.run(time.Second)
	if n := w.unanswered() - before; n > 0 || w.refused > 0 {
		t.Errorf("no owner decided %d requests of %d, and %d were refused", n, keys, w.refused)
	}
}

// What the ledger admits before gateways are sent the owners of keys is reported to the owners afterwards: no client
// gets its burst twice.
func TestAdmittedBeforeOwnersAreKnown(t *testing.T) {
	const keys, first, burst = 20, 8, 10
	w := newInstallation(3)
	for i := range w.agents {
		w.start(i)
	}
	w.run(100 * time.Millisecond)
	ask := func(n int) {
		for k := range keys * n {
			w.gates[0].request(fmt.Sprintf("c-%d", k%keys))
		}
		w.run(8 * time.Second)
	}
	if ask(first); w.unanswered() == 0 || w.refused > 0 {
		t.Fatalf("%d requests were left to the ledger, %d refused: this tests nothing", w.unanswered(), w.refused)
	}
	if ask(burst); w.refused != first*keys {
		t.Errorf("%d requests refused, want %d: what is beyond the burst", w.refused, first*keys)
	}
}
