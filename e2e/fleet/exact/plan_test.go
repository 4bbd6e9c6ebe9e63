package exact

import (
	"testing"
	"time"
)

// A client never owes more than half of its burst, wherever it asks. Its bucket is not whole again within eight
// minutes, so its key stays in use.
func TestClientsStayBelowTheirLimit(t *testing.T) {
	const keys, gateways = 60, 3
	p := plan{home: 1, gateways: gateways, keys: keys}
	type client struct {
		asked, owes float64
		last        time.Duration
		at          [gateways]int
	}
	var all [keys]client
	const step = 100 * time.Millisecond
	for now := step; now < 8*time.Minute; now += step {
		for due := p.due(now); p.sent < due; {
			r := p.next()
			c := &all[r.client]
			c.owes = max(0, c.owes-Rate*(now-c.last).Seconds())
			if c.asked > 0 && c.owes == 0 {
				t.Fatalf("the bucket of client %d is whole at %v", r.client, now)
			}
			c.owes += r.cost
			if c.asked++; c.owes > Burst/2 {
				t.Fatalf("client %d owes %v of its burst at %v", r.client, c.owes, now)
			}
			c.last = now
			c.at[r.gateway]++
		}
	}
	for i := range all {
		switch c := &all[i]; {
		case c.asked < 7:
			t.Errorf("client %d asked %v times", i, c.asked)
		case i%spread == 0 && (c.at[0] == 0 || c.at[2] == 0), i%spread != 0 && (c.at[0] > 0 || c.at[2] > 0):
			t.Errorf("client %d asked at %v", i, c.at)
		}
	}
}

// New clients come at a rate at which owners can be asked about them.
func TestNewClientsCome(t *testing.T) {
	p := plan{gateways: 1, keys: 10 * newKeys}
	for s, want := range map[float64]int{0: 0, 1: newKeys, 9.5: 9.5 * newKeys, 10: 10 * newKeys} {
		if got := p.due(time.Duration(s * 1e9)); got != want {
			t.Errorf("%d due after %v s, want %d", got, s, want)
		}
	}
	if got, want := p.due(10*time.Second+period), 20*newKeys; got != want {
		t.Errorf("%d due after all have asked once more, want %d", got, want)
	}
}
