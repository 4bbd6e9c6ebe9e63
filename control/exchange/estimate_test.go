package exchange_test

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

func TestSilentAgents(t *testing.T) {
	var e exchange.Estimator
	second := int64(time.Second)
	if _, _, silent := e.Silent(second, false, true); silent {
		t.Fatal("goes on with replicas that no sums have named")
	}
	e.Set(second, &exchange.Sums{Replicas: 3})
	if _, _, silent := e.Silent(second+int64(exchange.SilentAfter)/2, true, true); silent {
		t.Error("silent although the agent sends sums")
	}
	if _, _, silent := e.Silent(20*second, true, false); silent {
		t.Error("silent although the agent has nothing to say")
	}
	for _, c := range []struct {
		after     time.Duration
		linked    bool
		isolation exchange.Isolation
	}{
		{exchange.SilentAfter / 2, false, exchange.Frozen},
		{exchange.SilentAfter, true, exchange.Frozen},
		{exchange.DefaultSplitAfter, false, exchange.Split},
		{exchange.DefaultForgetAfter, false, exchange.Alone},
	} {
		since, isolation, silent := e.Silent(second+int64(c.after), c.linked, true)
		if !silent || since != second || isolation != c.isolation {
			t.Errorf("%v after the agent's last sums: since %v, %v, %v, want %v", c.after, since, isolation, silent,
				c.isolation)
		}
	}
	e.Set(20*second, &exchange.Sums{Replicas: 1})
	if _, _, silent := e.Silent(30*second, false, true); silent {
		t.Error("goes on with other replicas where there are none")
	}
}
