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
			c.owes = max(0, c.owes-mostRate*(now-c.last).Seconds())
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

// New clients come at a rate at which owners can be asked about them. Many gateways share what a machine bears.
func TestNewClientsCome(t *testing.T) {
	for _, c := range []struct{ gateways, keys, each, requests int }{
		{1, 50_000, 5000, 800},
		{3, 100_000, 5000, 1600},
		{16, 100_000, 175, 58},
	} {
		p := plan{gateways: c.gateways, keys: c.keys}
		if got := p.due(time.Second); got != c.each {
			t.Errorf("%d gateways: %d new clients in a second, want %d", c.gateways, got, c.each)
		}
		begins := time.Duration(p.begins()*1e9) + 1
		if got := p.due(begins); got != c.keys {
			t.Errorf("%d gateways: %d due at %v, want %d", c.gateways, got, begins, c.keys)
		}
		if got := p.due(begins+time.Second) - c.keys; got != c.requests {
			t.Errorf("%d gateways: %d requests in a second, want %d", c.gateways, got, c.requests)
		}
	}
}
