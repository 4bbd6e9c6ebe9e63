package core

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/control/slots"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/agent/applied"
)

// An agent that has never met another one, of which the coordinator knows, has its part of the slots only.
func TestAnAgentNeverMetCounts(t *testing.T) {
	c := newCore()
	c.SetGossipAddress("10.0.0.1:7946")
	if _, err := c.Configure(&applied.Configuration{Revision: 1, Config: &config.Config{Revision: 1,
		Tenants: []config.Tenant{{Name: "a", Limits: []config.Limit{{Name: "flight", Concurrency: 20}}}}}}); err != nil {
		t.Fatal(err)
	}
	to, _ := c.Hello(0)
	c.Connected(0, 1, hello("gw", 1, 1), 0)
	l := leases(1, 40)
	l.Members = []*controlv1.Replica{{Name: "gw", Gossip: "10.0.0.1:7946"}, {Name: "gw-2", Gossip: "10.0.0.2:7946"},
		{Name: "gw-3", Gossip: "10.0.0.2:7946"}}
	if _, err := to.Leases(0, l); err != nil {
		t.Fatal(err)
	}
	ask := exchange.SlotAsk{KeyName: exchange.KeyName{Tenant: "a", Limit: "flight", Client: "c"}}
	ask.Key, _, _ = limiter.SlotKey(c.applied.Configuration(), 0, &ask.KeyName)
	ask.Ask = slots.Ask{Session: 1, Number: 1, Register: true, Want: 20, Patience: slots.MaxWait}
	for now := time.Duration(0); now < 5*time.Second; now += period {
		c.Tick(now)
	}
	out := c.Received(5*time.Second, 1, &exchange.SlotAsks{Owner: 7, Sent: 1, List: []exchange.SlotAsk{ask}})
	granted := int64(-1)
	for _, m := range messages(out, 1) {
		if r, ok := m.(*exchange.SlotReplies); ok {
			granted = r.List[0].Granted
		}
	}
	if granted != 10 {
		t.Errorf("%d slots granted of 20, of which another agent may grant a half", granted)
	}
}
