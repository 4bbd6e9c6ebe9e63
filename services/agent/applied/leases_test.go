package applied

import (
	"errors"
	"maps"
	"testing"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"google.golang.org/protobuf/types/known/durationpb"
)

func lease(tenant string, share float64) *controlv1.Lease {
	return &controlv1.Lease{Tenant: tenant, Pool: "p", Share: share}
}

func complete(epoch int64, seq uint64, l ...*controlv1.Lease) *controlv1.Leases {
	return &controlv1.Leases{Epoch: epoch, Seq: seq, SoftExpiry: durationpb.New(time.Second), Leases: l,
		Pools:   []*controlv1.PoolLease{{Pool: "p", IdleShare: 2}, {Pool: "q", IdleShare: 3, GuaranteeScale: .5}},
		Members: []*controlv1.Replica{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}}, MembersVersion: 7,
		Total: uint32(len(l)), ReportChanges: true}
}

func after(seq, base uint64, total int, l ...*controlv1.Lease) *controlv1.Leases {
	return &controlv1.Leases{Epoch: 3, Seq: seq, Base: base, SoftExpiry: durationpb.New(time.Second), Leases: l,
		Total: uint32(total), MembersVersion: 7}
}

// one is the state of an agent that one coordinator sends its leases.
type one struct {
	State
	stream *Stream
}

func (o *one) BeginStream()         { o.stream = o.Stream() }
func (o *one) ReportsChanges() bool { return o.stream.ReportsChanges() }

func (o *one) Leases(now time.Duration, l *controlv1.Leases) (*Grant, error) {
	if o.stream == nil {
		o.BeginStream()
	}
	return o.stream.Leases(now, l)
}

func (o *State) sharesByTenant() map[string]float64 {
	out := map[string]float64{}
	s := o.Shares()
	for _, f := range s.Flows {
		out[f.Tenant] = f.Share
	}
	return out
}

func TestLeasesAreChanged(t *testing.T) {
	var o one
	o.BeginStream()
	take := func(l *controlv1.Leases, want map[string]float64) {
		t.Helper()
		if _, err := o.Leases(time.Second, l); err != nil {
			t.Fatal(err)
		}
		if got := o.sharesByTenant(); !maps.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	take(complete(3, 4, lease("m", 1), lease("x", 2), lease("c", 3)), map[string]float64{"m": 1, "x": 2, "c": 3})
	if !o.ReportsChanges() {
		t.Error("the coordinator understands changes")
	}
	next := after(6, 4, 4, lease("x", 20), lease("b", 5), lease("z", 6))
	next.Removed = []*controlv1.FlowName{{Tenant: "m", Pool: "p"}, {Tenant: "unknown", Pool: "p"},
		{Tenant: "b", Pool: "p"}}
	next.Pools = []*controlv1.PoolLease{{Pool: "q", IdleShare: 9}}
	take(next, map[string]float64{"b": 5, "c": 3, "x": 20, "z": 6})
	if s := o.Shares(); s.Pools[0].IdleShare != 2 || s.Pools[1].IdleShare != 9 {
		t.Errorf("%+v", s.Pools)
	}
	before := o.Shares()
	take(after(7, 6, 0), map[string]float64{"b": 5, "c": 3, "x": 20, "z": 6})
	if s := o.Shares(); s != before {
		t.Error("a renewal makes shares anew")
	}
	// A message in two parts counts when its end is there.
	part := &controlv1.Leases{Epoch: 3, Seq: 8, More: true, Leases: []*controlv1.Lease{lease("b", 50)}}
	take(part, map[string]float64{"b": 5, "c": 3, "x": 20, "z": 6})
	take(after(8, 7, 4, lease("c", 30)), map[string]float64{"b": 50, "c": 30, "x": 20, "z": 6})
	// The same round once more: a flow has come.
	take(after(8, 8, 5, lease("n", 1)), map[string]float64{"b": 50, "c": 30, "n": 1, "x": 20, "z": 6})
}

func TestMembersAreChanged(t *testing.T) {
	var o one
	o.BeginStream()
	members := func(l *controlv1.Leases, changed bool, want ...string) {
		t.Helper()
		g, err := o.Leases(0, l)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range g.Members {
			names = append(names, m.GetName())
		}
		if len(names) != len(want) || g.Changed != changed {
			t.Fatalf("%v, changed %v; want %v, %v", names, g.Changed, want, changed)
		}
		for i := range want {
			if names[i] != want[i] {
				t.Fatalf("%v, want %v", names, want)
			}
		}
	}
	members(complete(3, 1), true, "a", "b")
	members(after(2, 1, 0), false, "a", "b")
	next := after(3, 2, 0)
	next.MembersVersion, next.MembersBase, next.MembersRemoved = 8, 7, []string{"b"}
	next.Members = []*controlv1.Replica{{Name: "c", Weight: 1}, {Name: "a", Weight: 2}}
	members(next, true, "a", "c")
	// The next leader has the same members and does not send them.
	o.BeginStream()
	again := complete(4, 1)
	again.Members, again.MembersVersion = nil, 8
	members(again, false, "a", "c")
	if v := o.Status(0).Version; v != 8 {
		t.Errorf("version %d", v)
	}
}

// What is missed is noticed, and asked for once; until it has come, what was there stays.
func TestMissedLeases(t *testing.T) {
	for name, bad := range map[string]*controlv1.Leases{
		"a gap":                after(9, 8, 0, lease("a", 9)),
		"another epoch":        {Epoch: 4, Seq: 3, Base: 2, Leases: []*controlv1.Lease{lease("a", 9)}},
		"another sum of flows": after(3, 2, 5, lease("a", 9)),
		"members of another":   {Epoch: 3, Seq: 3, Base: 2, MembersVersion: 9, MembersBase: 8},
	} {
		t.Run(name, func(t *testing.T) {
			var o one
			o.BeginStream()
			if _, err := o.Leases(0, complete(3, 2, lease("a", 1))); err != nil {
				t.Fatal(err)
			}
			_, err := o.Leases(0, bad)
			if missed := new(MissedError); !errors.As(err, &missed) {
				t.Fatalf("%v", err)
			}
			if g, err := o.Leases(0, after(3, 2, 1, lease("a", 5))); g != nil || err != nil {
				t.Fatalf("a change before what is missed: %v, %v", g, err)
			}
			if got := o.sharesByTenant(); got["a"] != 1 || len(got) != 1 {
				t.Fatalf("%v", got)
			}
			g, err := o.Leases(0, complete(3, 2, lease("a", 7)))
			if g == nil || err != nil || o.sharesByTenant()["a"] != 7 {
				t.Fatalf("everything again: %v, %v", g, err)
			}
		})
	}
}

// On a new stream of the same leader the first leases may be those of the round that is in
// force; changes before them do not count.
func TestAStreamBeginsWithCompleteLeases(t *testing.T) {
	var o one
	o.BeginStream()
	if _, err := o.Leases(0, complete(3, 2, lease("a", 1))); err != nil {
		t.Fatal(err)
	}
	o.BeginStream()
	if g, err := o.Leases(0, after(3, 2, 0, lease("a", 5))); g != nil || err != nil {
		t.Fatalf("a change: %v, %v", g, err)
	}
	if g, err := o.Leases(0, complete(3, 2, lease("a", 6))); g == nil || err != nil {
		t.Fatalf("%v, %v", g, err)
	}
	if g, err := o.Leases(0, complete(3, 2, lease("a", 7))); g != nil || err != nil {
		t.Fatalf("repeated: %v, %v", g, err)
	}
}
