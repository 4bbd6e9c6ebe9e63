package spent

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

func say(keys ...exchange.KeySpent) *exchange.Spent { return &exchange.Spent{Keys: keys} }

func of(b *Store, now time.Duration, name string) map[uint64]exchange.KeySpent {
	out := map[uint64]exchange.KeySpent{}
	if m := b.For(now, name); m != nil {
		for _, k := range m.Keys {
			out[k.Key] = k
		}
	}
	return out
}

// The last word counts, by the time that has passed since; an older process of the
// name can only add.
func TestLatestWins(t *testing.T) {
	var b Store
	b.Add(0, "gw", 5, say(exchange.KeySpent{Key: 1, Ahead: 10 * time.Second, Named: true}, exchange.KeySpent{Key: 2,
		Ahead: 3 * time.Second}))
	if got := of(&b, 4*time.Second, "gw"); len(got) != 1 || got[1] != (exchange.KeySpent{Key: 1,
		Ahead: 6 * time.Second, Named: true}) {
		t.Fatalf("after 4 s: %v", got)
	}
	if got := of(&b, 0, "other"); len(got) != 0 {
		t.Errorf("another gateway has %v", got)
	}
	b.Add(4*time.Second, "gw", 5, say(exchange.KeySpent{Key: 1, Ahead: time.Second}))
	if got := of(&b, 4*time.Second, "gw"); got[1].Ahead != time.Second {
		t.Errorf("after something was given back: %v", got)
	}
	b.Add(4*time.Second, "gw", 6, say(exchange.KeySpent{Key: 1, Ahead: 5 * time.Second}))
	b.Add(4*time.Second, "gw", 5, say(exchange.KeySpent{Key: 1, Ahead: 2 * time.Second}, exchange.KeySpent{Key: 3,
		Ahead: time.Second}))
	b.Add(4*time.Second, "gw", 5, say(exchange.KeySpent{Key: 3, Ahead: 0}))
	if got := of(&b, 4*time.Second, "gw"); got[1].Ahead != 5*time.Second || got[3].Ahead != time.Second {
		t.Errorf("after the parent's words: %v", got)
	}
	b.Add(4*time.Second, "gw", 6, say(exchange.KeySpent{Key: 1, Ahead: -1}, exchange.KeySpent{Key: 9,
		Ahead: 1<<63 - 1}))
	if got := of(&b, 4*time.Second, "gw"); len(got) != 1 {
		t.Errorf("after all was given back: %v", got)
	}
	b.Sweep(time.Minute)
	if held, lost := b.Status(); held != 0 || lost != 0 || len(b.gateways) != 0 {
		t.Errorf("%d held, %d lost, %d gateways after all was won back", held, lost, len(b.gateways))
	}
}

// Beyond the bound those stay that need the most time.
func TestBound(t *testing.T) {
	b := Store{most: 4}
	for i := range uint64(4) {
		b.Add(0, "gw", 1, say(exchange.KeySpent{Key: i, Ahead: time.Duration(i+1) * time.Second}))
	}
	b.Add(0, "other", 1, say(exchange.KeySpent{Key: 9, Ahead: time.Minute}))
	b.Add(0, "gw", 1, say(exchange.KeySpent{Key: 10, Ahead: time.Millisecond}))
	if held, lost := b.Status(); held != 4 || lost != 2 {
		t.Errorf("%d held, %d lost, want 4 and 2", held, lost)
	}
	if got := of(&b, 0, "gw"); len(got) != 3 || got[0].Ahead != 0 {
		t.Errorf("kept %v", got)
	}
	if got := of(&b, 0, "other"); len(got) != 1 {
		t.Errorf("the other gateway has %v", got)
	}
}

// A gateway that says that keys take for ever leaves other gateways their parts of the room.
func TestTheGatewayWithTheMostGivesRoom(t *testing.T) {
	b := Store{most: 64}
	for i := range uint64(200) {
		b.Add(0, "bad", 1, say(exchange.KeySpent{Key: i, Ahead: longest}))
	}
	if bad := b.Add(0, "bad", 1, say(exchange.KeySpent{Key: 1, Ahead: longest + 1})); bad != 1 {
		t.Errorf("%d times are out of bounds, want 1", bad)
	}
	for i := range uint64(20) {
		b.Add(0, "good", 1, say(exchange.KeySpent{Key: i, Ahead: time.Second}))
	}
	if got := of(&b, 0, "good"); len(got) != 20 {
		t.Errorf("%d of 20 keys of the other gateway are remembered", len(got))
	}
	if held, _ := b.Status(); held > 64 {
		t.Errorf("%d held, at most 64", held)
	}
}
