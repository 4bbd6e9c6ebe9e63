package link

import (
	"bytes"
	"errors"
	"testing"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

// An agent reads a Hello first, and then what a filter sends: anything else is refused at its header, before it is
// gathered and decoded.
func TestAgentReader(t *testing.T) {
	hello := &Hello{Version: Version, Replica: "gw"}
	for _, c := range []struct {
		what string
		send []Message
		ok   bool
	}{
		{"a filter", []Message{hello, &Heartbeat{}, &exchange.Claims{}, &exchange.Report{}, &Refused{}, &exchange.Names{},
			&exchange.Spent{}, &exchange.Decisions{}, &exchange.TokenRequests{}, &exchange.SlotAsks{}}, true},
		{"no Hello", []Message{&Heartbeat{}}, false},
		{"a second Hello", []Message{hello, hello}, false},
		{"a configuration", []Message{hello, &config.Config{}}, false},
		{"a change", []Message{hello, &config.Delta{}}, false},
		{"shares", []Message{hello, &exchange.Shares{}}, false},
		{"sums", []Message{hello, &exchange.Sums{}}, false},
		{"answers", []Message{hello, &exchange.TokenAnswers{}}, false},
		{"messages of an owner of slots", []Message{hello, &exchange.SlotReplies{}}, false},
		{"more questions than a message has", []Message{hello,
			&exchange.TokenRequests{List: make([]exchange.TokenRequest, 1000)}}, false},
		{"more keys than a message has", []Message{hello, &exchange.Spent{Keys: make([]exchange.KeySpent, 100_000)}}, false},
	} {
		var wire bytes.Buffer
		w := newestWriter(&wire)
		for _, m := range c.send {
			if err := w.Write(m); err != nil {
				t.Fatal(err)
			}
		}
		r, last := NewAgentReader(&wire), error(nil)
		for range c.send {
			if _, last = r.Next(); last != nil {
				break
			}
		}
		if format := new(FormatError); (last == nil) != c.ok || !c.ok && !errors.As(last, &format) {
			t.Errorf("%s: %v, want it taken: %v", c.what, last, c.ok)
		}
	}
}

// The longest messages that a filter cuts its lists into are taken.
func TestLongestPartsOfAFilterFit(t *testing.T) {
	name := exchange.KeyName{Client: string(make([]byte, exchange.MaxKeyName))}
	long := make([]exchange.TokenRequest, 500)
	for i := range long {
		long[i].KeyName = name
	}
	asks := make([]exchange.SlotAsk, 500)
	for i := range asks {
		asks[i].KeyName = name
	}
	for _, m := range []Message{
		&exchange.Claims{Keys: make([]exchange.KeyClaim, MaxRecords)},
		&exchange.Claims{Flows: make([]exchange.FlowClaim, MaxRecords)},
		&exchange.Spent{Keys: make([]exchange.KeySpent, 4096)},
		(&exchange.TokenRequests{List: make([]exchange.TokenRequest, 5000)}).Parts(MaxTokens)[0],
		(&exchange.TokenRequests{List: long}).Parts(MaxTokens)[0],
		(&exchange.SlotAsks{List: asks}).Parts(MaxTokens)[0],
		(&exchange.SlotAsks{List: make([]exchange.SlotAsk, 5000)}).Parts(MaxTokens)[0],
	} {
		b, err := encode(nil, m)
		if err != nil || len(b) > MaxFromFilter(m) {
			t.Errorf("%T: %d bytes, at most %d: %v", m, len(b), MaxFromFilter(m), err)
		}
	}
}
