package comparison

import (
	"testing"

	"github.com/titrate/titrate/control/aqm"
)

// The document says of our controller: it uses the limit, for any distribution of demand, and the highest
// second after a join is near the limit. Each other way misses one of the two.
func TestAnnouncedClaims(t *testing.T) {
	for _, c := range scenarios {
		ours := play(newAnnounced(), c)
		t.Logf("%s: %+v", c.name, ours)
		if ours.use < 92 || ours.over > 12 {
			t.Errorf("%s: %+v", c.name, ours)
		}
	}
	join := scenarios[5]
	if o := play(newPublished(), join); o.over < 20 {
		t.Errorf("the published controller: %+v, want more than 20 %% over", o)
	}
	if o := play(&static{}, scenarios[2]); o.use > 11 {
		t.Errorf("static split: %+v, want a tenth", o)
	}
	if o := play(&central{}, scenarios[4]); o.use < 99.9 || o.refused > .1 {
		t.Errorf("central: %+v", o)
	}
}

// The document says of queues: ours holds its target for all clients and refuses no request of clients that
// obey; a long queue serves no request in time.
func TestQueues(t *testing.T) {
	for _, who := range []clients{obeying, ignoring, retrying} {
		mode := aqm.DropMode
		if who == obeying {
			mode = aqm.Cooperative
		}
		ours, long := serve(managers[0].make(mode), who), serve(managers[2].make(mode), who)
		if ours.wait > 60 || ours.goodput < .9 || who == obeying && ours.refused > .1 {
			t.Errorf("clients %d: ours %+v", who, ours)
		}
		if long.goodput > .1 {
			t.Errorf("clients %d: the long queue %+v", who, long)
		}
	}
}

func TestAllocators(t *testing.T) {
	if text := Allocators(); len(text) < 200 {
		t.Error(text)
	}
}
