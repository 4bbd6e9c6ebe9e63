package applied

import (
	"errors"
	"slices"
	"testing"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/agent/lastgood"
	"google.golang.org/protobuf/types/known/durationpb"
)

// ofPools makes complete leases: of each pool one flow, and its idle share.
func ofPools(epoch int64, seq uint64, share float64, pools ...string) *controlv1.Leases {
	l := &controlv1.Leases{Epoch: epoch, Seq: seq, SoftExpiry: durationpb.New(time.Second),
		Members: []*controlv1.Replica{{Name: "a", Weight: 1}}, MembersVersion: uint64(epoch)}
	for _, name := range pools {
		l.Leases = append(l.Leases, &controlv1.Lease{Tenant: "t", Pool: name, Share: share})
		l.Pools = append(l.Pools, &controlv1.PoolLease{Pool: name, IdleShare: share / 10})
	}
	return l
}

// several is an agent with three pools that coordinators divide among them.
func several(t *testing.T) *both {
	t.Helper()
	o := &both{}
	if _, _, err := o.Configuration(full(1, 1, pool("x", 1), pool("y", 1), pool("z", 1))); err != nil {
		t.Fatal(err)
	}
	return o
}

// inForce checks the shares of the pools, and that each has its idle share.
func (b *both) inForce(t *testing.T, epoch int64, want map[string]float64) {
	t.Helper()
	s := b.Shares()
	if s.Epoch != epoch || len(s.Flows) != len(want) || len(s.Pools) != len(want) {
		t.Fatalf("epoch %d, %v, %v; want epoch %d, %v", s.Epoch, s.Flows, s.Pools, epoch, want)
	}
	for _, f := range s.Flows {
		if f.Share != want[f.Pool] {
			t.Errorf("pool %s has share %v, want %v", f.Pool, f.Share, want[f.Pool])
		}
	}
	for _, p := range s.Pools {
		if p.IdleShare != want[p.Pool]/10 {
			t.Errorf("pool %s has idle share %v, want %v", p.Pool, p.IdleShare, want[p.Pool]/10)
		}
	}
}

func receive(t *testing.T, s *Stream, now time.Duration, l *controlv1.Leases) *Grant {
	t.Helper()
	g, err := s.Leases(now, l)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Of each pool the coordinator with the highest epoch is believed, whatever it and the others
// send of other pools.
func TestCoordinatorsArePoolByPool(t *testing.T) {
	o := several(t)
	one, two := o.Stream(), o.Stream()
	receive(t, one, 0, ofPools(5, 1, 10, "x", "y", "z"))
	o.inForce(t, 5, map[string]float64{"x": 10, "y": 10, "z": 10})
	// Another one has joined and leads y. The first does not know it yet.
	receive(t, two, 0, ofPools(6, 1, 20, "y"))
	receive(t, one, 0, ofPools(5, 2, 11, "x", "y", "z"))
	o.inForce(t, 6, map[string]float64{"x": 11, "y": 20, "z": 11})
	receive(t, one, 0, ofPools(5, 3, 12, "x", "z"))
	o.inForce(t, 6, map[string]float64{"x": 12, "y": 20, "z": 12})
	// It ends. The first takes y over, under a higher epoch; what the second still sends of it does
	// not count, and what it sends alone is refused.
	receive(t, one, 0, ofPools(7, 1, 30, "x", "y", "z"))
	if _, err := two.Leases(0, ofPools(6, 2, 99, "y")); !errors.As(err, new(*StaleEpochError)) {
		t.Errorf("of a coordinator that was replaced: %v", err)
	}
	o.inForce(t, 7, map[string]float64{"x": 30, "y": 30, "z": 30})
}

// A pool that its coordinator does not lead any more has its shares until the next one sends them.
func TestPoolBetweenTwoCoordinators(t *testing.T) {
	o := several(t)
	one, two := o.Stream(), o.Stream()
	receive(t, one, 0, ofPools(5, 1, 10, "x", "y", "z"))
	receive(t, one, 500*time.Millisecond, ofPools(5, 2, 11, "x"))
	o.inForce(t, 5, map[string]float64{"x": 11, "y": 10, "z": 10})
	receive(t, two, 600*time.Millisecond, ofPools(6, 1, 20, "z"))
	o.inForce(t, 6, map[string]float64{"x": 11, "y": 10, "z": 20})
	// It is stale at its own expiry, though the others are renewed, and fresh when it is sent again.
	receive(t, one, 900*time.Millisecond, ofPools(5, 3, 11, "x"))
	if s := o.Expire(999 * time.Millisecond); s != nil {
		t.Errorf("too early: %+v", s)
	}
	if s := o.Expire(time.Second); s == nil || !s.Stale {
		t.Errorf("pool y is a second old: %+v", s)
	}
	if g := receive(t, one, time.Second, ofPools(5, 4, 12, "x")); !g.Shares.Stale {
		t.Error("pool y is not sent yet")
	}
	if g := receive(t, two, time.Second, ofPools(6, 2, 20, "y", "z")); g.Shares.Stale {
		t.Error("all pools are fresh")
	}
	o.inForce(t, 6, map[string]float64{"x": 12, "y": 20, "z": 20})
	// A pool that is no longer configured is gone.
	o.Configuration(&controlv1.Configuration{Revision: 2, Last: true, Seed: 5, Deleted: []string{"pools/z"}})
	receive(t, two, time.Second, ofPools(6, 3, 20, "y"))
	o.inForce(t, 6, map[string]float64{"x": 12, "y": 20})
}

// Members come from the coordinator with the highest epoch.
func TestMembersOfSeveralCoordinators(t *testing.T) {
	o := several(t)
	one, two := o.Stream(), o.Stream()
	receive(t, two, 0, ofPools(6, 1, 20, "y"))
	l := ofPools(5, 1, 10, "x", "z")
	l.Members = append(l.Members, &controlv1.Replica{Name: "b", Weight: 1})
	if g := receive(t, one, 0, l); g.Until != 0 || g.Changed || len(g.Members) != 1 {
		t.Errorf("of a lower epoch: %+v", g)
	}
	l = ofPools(7, 1, 10, "x", "z")
	l.Members = append(l.Members, &controlv1.Replica{Name: "b", Weight: 1})
	if g := receive(t, one, 0, l); g.Until != time.Second || !g.Changed || len(g.Members) != 2 {
		t.Errorf("of the highest epoch: %+v", g)
	}
	if st := o.Status(0); st.Version != 7 || st.Members != 2 || st.Epoch != 7 || st.Leases != 3 {
		t.Errorf("%+v", st)
	}
}

// The epoch of each pool survives a restart of the agent.
func TestEpochsOfPoolsAreKept(t *testing.T) {
	o := several(t)
	receive(t, o.Stream(), time.Second, ofPools(6, 1, 20, "y"))
	receive(t, o.Stream(), time.Second, ofPools(5, 1, 10, "x", "z"))
	epochs := map[string]int64{}
	for _, p := range o.Status(0).Pools {
		epochs[p.GetPool()] = p.GetEpoch()
	}
	if epochs["x"] != 5 || epochs["y"] != 6 || epochs["z"] != 5 {
		t.Errorf("epochs %v", epochs)
	}
	var again both
	if err := again.Restore(&lastgood.Snapshot{Configuration: o.Source(), Leases: o.LastLeases()}); err != nil {
		t.Fatal(err)
	}
	s := again.Stream()
	receive(t, s, 0, ofPools(5, 2, 11, "x", "y"))
	again.inForce(t, 6, map[string]float64{"x": 11, "y": 20, "z": 10})
	if !again.Shares().Stale {
		t.Error("pools y and z are those of the snapshot")
	}
	receive(t, again.Stream(), 0, ofPools(6, 2, 21, "y", "z"))
	again.inForce(t, 6, map[string]float64{"x": 11, "y": 21, "z": 21})
	if again.Shares().Stale {
		t.Error("all pools were renewed")
	}
}

// A renewal by one of several coordinators keeps the shares that were made.
func TestRenewalBySeveral(t *testing.T) {
	o := several(t)
	one, two := o.Stream(), o.Stream()
	receive(t, one, 0, ofPools(5, 1, 10, "x", "z"))
	receive(t, two, 0, ofPools(6, 1, 20, "y"))
	before := o.Shares()
	for i, s := range []*Stream{one, two} {
		renewal := &controlv1.Leases{Epoch: int64(5 + i), Seq: 2, Base: 1, MembersVersion: uint64(5 + i),
			SoftExpiry: durationpb.New(time.Second)}
		if g := receive(t, s, 800*time.Millisecond, renewal); g.Shares != before {
			t.Error("made anew")
		}
	}
	if s := o.Expire(1700 * time.Millisecond); s != nil {
		t.Errorf("both were renewed: %+v", s)
	}
	if !slices.IsSortedFunc(o.LastLeases().GetLeases(), compareFlows[*controlv1.Lease, *controlv1.Lease]) {
		t.Errorf("leases %v", o.LastLeases().GetLeases())
	}
}

// A pool may be deleted at the coordinator before the change of the configuration is here. It is
// gone with that change: its leases do not expire.
func TestPoolIsDeletedBeforeItsConfiguration(t *testing.T) {
	o := several(t)
	s := o.Stream()
	receive(t, s, 0, ofPools(5, 1, 10, "x", "y", "z"))
	receive(t, s, 100*time.Millisecond, ofPools(5, 2, 10, "x", "y"))
	o.inForce(t, 5, map[string]float64{"x": 10, "y": 10, "z": 10})
	o.Configuration(&controlv1.Configuration{Revision: 2, Last: true, Seed: 5, Deleted: []string{"pools/z"}})
	for i := range uint64(5) {
		now := time.Duration(2+4*i) * 100 * time.Millisecond
		renewal := &controlv1.Leases{Epoch: 5, Seq: 3 + i, Base: 2 + i, MembersVersion: 5,
			SoftExpiry: durationpb.New(time.Second)}
		if g := receive(t, s, now, renewal); g.Shares.Stale || o.Expire(now) != nil {
			t.Errorf("stale after %v, though all pools were renewed", now)
		}
	}
	o.inForce(t, 5, map[string]float64{"x": 10, "y": 10})
}

// A pool that was deleted while the agent had no stream is gone with the first leases of the next
// one.
func TestPoolIsDeletedBetweenTwoStreams(t *testing.T) {
	o := several(t)
	receive(t, o.Stream(), 0, ofPools(5, 1, 10, "x", "y", "z"))
	o.Configuration(&controlv1.Configuration{Revision: 2, Last: true, Seed: 5, Deleted: []string{"pools/z"}})
	if g := receive(t, o.Stream(), time.Hour, ofPools(5, 9, 12, "x", "y")); g.Shares.Stale {
		t.Error("all pools were renewed")
	}
	o.inForce(t, 5, map[string]float64{"x": 12, "y": 12})
	if s := o.Expire(time.Hour + 999*time.Millisecond); s != nil {
		t.Errorf("%+v is stale", s)
	}
}

// One of the coordinators that share the pools sends the members; the others' word on leases leaves
// them as they are.
func TestOneSendsTheMembers(t *testing.T) {
	o := several(t)
	one, two := o.Stream(), o.Stream()
	receive(t, one, 0, ofPools(5, 1, 10, "x", "z"))
	silent := func(seq uint64, share float64) *controlv1.Leases {
		l := ofPools(5, seq, share, "y")
		l.Members, l.MembersVersion, l.WithoutMembers = nil, 0, true
		return l
	}
	if g := receive(t, two, time.Second, silent(1, 20)); g.Until != 0 || g.Changed || len(g.Members) != 1 {
		t.Errorf("of one that sends none: %+v", g)
	}
	o.inForce(t, 5, map[string]float64{"x": 10, "y": 20, "z": 10})
	l := ofPools(5, 2, 11, "x", "z")
	l.Members, l.MembersVersion = append(l.Members, &controlv1.Replica{Name: "b", Weight: 1}), 6
	if g := receive(t, one, time.Second, l); g.Until != 2*time.Second || !g.Changed || len(g.Members) != 2 {
		t.Errorf("of the one that sends them: %+v", g)
	}
	// Also where it leads all pools, until the next one sends them.
	l = ofPools(6, 1, 30, "x", "y", "z")
	l.Members, l.MembersVersion, l.WithoutMembers = nil, 0, true
	if g := receive(t, two, time.Second, l); g.Until != 0 || len(o.LastLeases().GetMembers()) != 2 {
		t.Errorf("of one that leads all pools and sends none: %+v, kept %v", g, o.LastLeases().GetMembers())
	}
	pools, flows := o.Held([]string{"y"})
	if len(pools) != 1 || pools[0].GetEpoch() != 6 || len(flows) != 1 || flows[0].GetShare() != 30 {
		t.Errorf("held of y: %v, %v", pools, flows)
	}
}

// The unused capacity of a pool may be used while its coordinator measures what is used: for two of its rounds
// after the last leases, not until they are stale. It is back with the next ones.
func TestUnusedCapacityLapses(t *testing.T) {
	o := several(t)
	s := o.Stream()
	l := ofPools(5, 1, 10, "x")
	l.Pools[0].Unused, l.SoftExpiry = 7, durationpb.New(10*time.Second)
	receive(t, s, 0, l)
	lapses := func(at time.Duration) {
		t.Helper()
		if got := o.Expire(at - 1); got != nil {
			t.Errorf("too early: %+v", got)
		}
		got := o.Expire(at)
		if got == nil || got.Stale || got.Pools[0].Unused != 0 || got.Pools[0].IdleShare != 1 || len(got.Flows) != 1 {
			t.Fatalf("after %v: %+v", at, got)
		}
		if got := o.Expire(at + 1); got != nil {
			t.Errorf("twice: %+v", got)
		}
	}
	lapses(2 * time.Second)
	renewal := &controlv1.Leases{Epoch: 5, Seq: 2, Base: 1, MembersVersion: 5,
		SoftExpiry: durationpb.New(10 * time.Second)}
	if g := receive(t, s, 2500*time.Millisecond, renewal); g.Shares.Pools[0].Unused != 7 {
		t.Errorf("renewed: %+v", g.Shares)
	}
	lapses(7500 * time.Millisecond)
}
