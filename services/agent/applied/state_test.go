package applied

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/agent/lastgood"
	"github.com/titrate/titrate/services/store/resource"
	"google.golang.org/protobuf/types/known/durationpb"
)

// both joins an Offer, which receives configurations, and the state in force.
type both struct {
	one
	Offer
	stream *Offered
}

// Reset ends the stream that configurations come on.
func (b *both) Reset() { b.stream = nil }

// Configuration adds a chunk; after the last one it puts the configuration in force.
func (b *both) Configuration(m *controlv1.Configuration) (*config.Config, *controlv1.Ack, error) {
	if err := b.CheckEpoch(m.GetEpoch()); err != nil {
		return nil, nil, err
	}
	if b.stream == nil {
		b.stream = b.Offer.Begin(b.Offer.in.GetRevision())
	}
	c, err := b.stream.Add(m)
	switch {
	case err != nil:
		return nil, &controlv1.Ack{Nonce: m.GetNonce(), Error: err.Error()}, nil
	case c == nil:
		return nil, nil, nil
	}
	if err := b.Configure(c); err != nil {
		return nil, nil, err
	}
	return b.State.Configuration().Config(), &controlv1.Ack{Nonce: m.GetNonce()}, nil
}

// InForce returns the configuration and the shares of the gateways.
func (b *both) InForce() (*config.Config, *exchange.Shares) {
	return b.State.Configuration().Config(), b.Shares()
}

// Snapshot returns the snapshot for the disk, nil before the first configuration.
func (b *both) Snapshot() *lastgood.Snapshot {
	if b.Source() == nil {
		return nil
	}
	return &lastgood.Snapshot{Configuration: b.Source(), Leases: b.LastLeases()}
}

// Restore puts a snapshot in force.
func (b *both) Restore(s *lastgood.Snapshot) error {
	c, err := b.Offer.Restore(s)
	if err != nil {
		return err
	}
	return b.State.Restore(s, c)
}

func pool(name string, capacity float64) *quotav1.Resource {
	return &quotav1.Resource{Kind: &quotav1.Resource_Pool{Pool: &quotav1.Pool{Name: "pools/" + name,
		Capacity: capacity}}}
}

func full(revision int64, nonce uint64, r ...*quotav1.Resource) *controlv1.Configuration {
	return &controlv1.Configuration{Revision: revision, Nonce: nonce, Full: true, Last: true, Seed: 5, Resources: r}
}

func leases(epoch int64, seq uint64, share float64) *controlv1.Leases {
	return &controlv1.Leases{Epoch: epoch, Seq: seq, SoftExpiry: durationpb.New(time.Second),
		Leases:  []*controlv1.Lease{{Tenant: "t", Pool: "p", Share: share}},
		Pools:   []*controlv1.PoolLease{{Pool: "p", Price: .5, IdleShare: 2}},
		Members: []*controlv1.Replica{{Name: "a", Weight: 1}}}
}

func TestConfigurationInChunks(t *testing.T) {
	var o both
	first := full(3, 1, pool("a", 1))
	first.Last = false
	if c, ack, _ := o.Configuration(first); c != nil || ack != nil {
		t.Fatal("applied before its last chunk")
	}
	second := full(3, 2, pool("b", 2))
	c, ack, _ := o.Configuration(second)
	if c == nil || len(c.Pools) != 2 || c.Revision != 3 || c.Seed != 5 || ack.GetNonce() != 2 || ack.GetError() != "" {
		t.Fatalf("%+v, %v", c, ack)
	}
	// A half of revision 4, then the whole of 5: the half is forgotten.
	o.Configuration(&controlv1.Configuration{Revision: 4, Resources: []*quotav1.Resource{pool("half", 1)}})
	c, _, _ = o.Configuration(&controlv1.Configuration{Revision: 5, Last: true, Seed: 5, Deleted: []string{"pools/a"}})
	if len(c.Pools) != 1 || c.Pools[0].Name != "b" {
		t.Fatalf("%+v", c.Pools)
	}
	// The same when the stream broke within one revision.
	o.Configuration(&controlv1.Configuration{Revision: 6, Resources: []*quotav1.Resource{pool("half", 1)}})
	o.Reset()
	c, _, _ = o.Configuration(&controlv1.Configuration{Revision: 6, Last: true, Seed: 5})
	if len(c.Pools) != 1 {
		t.Fatalf("%+v", c.Pools)
	}
}

func TestBadConfigurationKeepsTheOld(t *testing.T) {
	var o both
	if c, ack, _ := o.Configuration(&controlv1.Configuration{Revision: 1, Last: true, Nonce: 8}); c != nil ||
		!strings.Contains(ack.GetError(), "send it whole") {
		t.Fatalf("a change of nothing: %v, %v", c, ack)
	}
	o.Configuration(full(1, 1, pool("a", 1)))
	c, ack, _ := o.Configuration(&controlv1.Configuration{Revision: 2, Last: true, Nonce: 9,
		Resources: []*quotav1.Resource{pool("b", -1)}})
	if c != nil || ack.GetNonce() != 9 || !strings.Contains(ack.GetError(), "pools/b: capacity") {
		t.Fatalf("%+v, %v", c, ack)
	}
	if in, _ := o.InForce(); in.Revision != 1 || len(in.Pools) != 1 {
		t.Fatalf("in force: %+v", in)
	}
	// The repair comes as a change of what was refused.
	c, ack, _ = o.Configuration(&controlv1.Configuration{Revision: 3, Last: true,
		Resources: []*quotav1.Resource{pool("b", 1)}})
	if ack.GetError() != "" || len(c.Pools) != 2 {
		t.Fatalf("%+v, %v", c, ack)
	}
}

// The digest is of the held configuration: not of a refused one, nor of another revision. What was refused is forgotten
// with its stream: the next one begins with what is lacking of what is held, and etcd may have another history then.
func TestANewStreamBeginsWithWhatIsHeld(t *testing.T) {
	var o both
	o.Configuration(full(1, 1, pool("a", 1), pool("b", 1)))
	held := o.Offer.Digest(1)
	if want := resource.Digest(0).Replace(nil, pool("a", 1)).Replace(nil, pool("b", 1)); held != want {
		t.Fatalf("digest %x, want %x", held, want)
	}
	if d := o.Offer.Digest(2); d != 0 {
		t.Errorf("of a revision that is not held: %x", d)
	}
	if _, ack, _ := o.Configuration(&controlv1.Configuration{Revision: 2, Last: true,
		Resources: []*quotav1.Resource{pool("c", -1)}}); ack.GetError() == "" {
		t.Fatal("a bad pool is not refused")
	}
	if d := o.Offer.Digest(1); d != held {
		t.Errorf("after a refusal %x, want %x", d, held)
	}
	o.Reset()
	c, ack, _ := o.Configuration(&controlv1.Configuration{Revision: 3, Last: true, Seed: 5,
		Deleted: []string{"pools/a"}})
	if ack.GetError() != "" || len(c.Pools) != 1 || c.Pools[0].Name != "b" || c.Revision != 3 {
		t.Fatalf("%+v, %v", c, ack)
	}
	var restored both
	if err := restored.Restore(o.Snapshot()); err != nil {
		t.Fatal(err)
	}
	if d := restored.Offer.Digest(3); d != o.Offer.Digest(3) || d != (resource.Digest(0).Replace(nil, pool("b", 1))) {
		t.Errorf("after a restart %x, want %x", d, o.Offer.Digest(3))
	}
	// The word that nothing is lacking, on the next stream.
	o.Reset()
	if c, ack, _ = o.Configuration(&controlv1.Configuration{Revision: 3, Last: true, Seed: 5, Epoch: 9,
		Nonce: 4}); ack.GetError() != "" || len(c.Pools) != 1 || c.Revision != 3 || o.CheckEpoch(8) == nil {
		t.Errorf("%+v, %v", c, ack)
	}
}

func TestLeasesInOrder(t *testing.T) {
	var o both
	g, err := o.Leases(time.Second, leases(2, 5, 10))
	if err != nil || g.Until != 2*time.Second || g.Shares.Flows[0].Share != 10 || g.Shares.Pools[0].IdleShare != 2 ||
		len(g.Members) != 1 {
		t.Fatalf("%+v, %v", g, err)
	}
	for _, c := range []struct {
		l     *controlv1.Leases
		share float64
		stale bool
	}{
		{leases(2, 4, 99), 10, false}, // overtaken
		{leases(2, 5, 99), 10, false}, // repeated
		{leases(2, 6, 11), 11, false},
		{leases(1, 7, 99), 11, true}, // a replaced leader
		{leases(3, 1, 12), 12, false},
		{leases(2, 9, 99), 12, true},
	} {
		_, err := o.Leases(time.Second, c.l)
		if stale := new(StaleEpochError); errors.As(err, &stale) != c.stale {
			t.Errorf("epoch %d seq %d: %v", c.l.Epoch, c.l.Seq, err)
		}
		if s := o.Shares(); s.Flows[0].Share != c.share {
			t.Errorf("epoch %d seq %d: share %v, want %v", c.l.Epoch, c.l.Seq, s.Flows[0].Share, c.share)
		}
	}
}

func TestUnusableLeases(t *testing.T) {
	var o both
	if _, err := o.Leases(0, leases(1, 1, 10)); err != nil {
		t.Fatal(err)
	}
	for _, v := range []float64{math.NaN(), -1, math.Inf(-1)} {
		if _, err := o.Leases(0, leases(1, 2, v)); err == nil || !strings.Contains(err.Error(), `tenant "t"`) {
			t.Errorf("share %v: %v", v, err)
		}
	}
	bad := leases(1, 2, 1)
	bad.Pools[0].Price = math.NaN()
	if _, err := o.Leases(0, bad); err == nil {
		t.Error("price NaN: no error")
	}
	if _, err := o.Leases(0, leases(1, 2, math.Inf(1))); err != nil {
		t.Errorf("an unbounded share: %v", err)
	}
}

func TestSoftExpiry(t *testing.T) {
	var o both
	if o.Expire(time.Hour) != nil {
		t.Error("nothing can expire")
	}
	if _, err := o.Leases(time.Second, leases(1, 1, 10)); err != nil {
		t.Fatal(err)
	}
	if s := o.Expire(1900 * time.Millisecond); s != nil {
		t.Error("too early")
	}
	if s := o.Expire(2 * time.Second); s == nil || !s.Stale || s.Flows[0].Share != 10 {
		t.Errorf("%+v, want the same shares, stale", s)
	}
	if s := o.Expire(time.Hour); s != nil {
		t.Error("expired twice")
	}
	if g, err := o.Leases(3*time.Second, leases(1, 2, 10)); err != nil || g.Shares.Stale {
		t.Errorf("renewed: %+v, %v", g, err)
	}
}

func TestSnapshotRoundTrip(t *testing.T) {
	var o both
	if o.Snapshot() != nil {
		t.Error("a snapshot of nothing")
	}
	o.Configuration(full(3, 1, pool("a", 1)))
	o.Configuration(&controlv1.Configuration{Revision: 4, Last: true, Seed: 5, Resources: []*quotav1.Resource{pool("b",
		1)}})
	if _, err := o.Leases(time.Second, leases(7, 3, 10)); err != nil {
		t.Fatal(err)
	}
	var again both
	if err := again.Restore(o.Snapshot()); err != nil {
		t.Fatal(err)
	}
	c, s := again.InForce()
	if c.Revision != 4 || c.Seed != 5 || len(c.Pools) != 2 || !s.Stale || s.Flows[0].Share != 10 {
		t.Errorf("%+v, %+v", c, s)
	}
	if st := again.Status(time.Hour); st.Epoch != 7 || st.Age >= 0 || !st.Stale || st.Revision != 4 {
		t.Errorf("%+v", st)
	}
	if _, err := again.Leases(0, leases(6, 9, 1)); err == nil {
		t.Error("an epoch obeyed before the restart is forgotten")
	}
	bad := o.Snapshot()
	bad.Configuration.Resources = append(bad.Configuration.Resources, pool("c", -1))
	if err := new(both).Restore(bad); err == nil {
		t.Error("a bad snapshot was taken")
	}
}

// A coordinator that was replaced cannot put an older configuration in force.
func TestConfigurationOfAStaleEpoch(t *testing.T) {
	var o both
	give := func(epoch, revision int64, name string) error {
		_, _, err := o.Configuration(&controlv1.Configuration{Epoch: epoch, Revision: revision, Full: true, Last: true,
			Seed: 5, Resources: []*quotav1.Resource{pool(name, 1)}})
		return err
	}
	if err := give(7, 1, "a"); err != nil {
		t.Fatal(err)
	}
	var stale *StaleEpochError
	if err := give(6, 2, "b"); !errors.As(err, &stale) || stale.Got != 6 || stale.Applied != 7 {
		t.Errorf("an older leader's configuration: %v", err)
	}
	if _, err := o.Leases(time.Second, &controlv1.Leases{Epoch: 6, Seq: 1}); !errors.As(err, &stale) {
		t.Errorf("an older leader's leases: %v", err)
	}
	if c, _ := o.InForce(); c.Revision != 1 {
		t.Errorf("revision %d is in force", c.Revision)
	}
	var again both
	if err := again.Restore(o.Snapshot()); err != nil {
		t.Fatal(err)
	}
	if again.Status(0).Epoch != 7 {
		t.Errorf("epoch %d after a restart", again.Status(0).Epoch)
	}
	if err := give(0, 3, "c"); err != nil {
		t.Errorf("a coordinator that does not say its epoch: %v", err)
	}
}

// What the coordinator cannot read stays in force here.
func TestUnreadableResourcesAreKept(t *testing.T) {
	var o both
	o.Configuration(&controlv1.Configuration{Revision: 1, Full: true, Last: true, Seed: 5,
		Resources: []*quotav1.Resource{pool("a", 1), pool("b", 1)}})
	c, _, _ := o.Configuration(&controlv1.Configuration{Revision: 2, Full: true, Last: true, Seed: 5,
		Resources: []*quotav1.Resource{pool("c", 1)}, Unreadable: []string{"pools/b", "pools/none"}})
	var names []string
	for _, p := range c.Pools {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"b", "c"}) {
		t.Errorf("in force: %v", names)
	}
}

// A change leads from one configuration to the next; a refused one is part of the change
// that repairs it, and one with another seed is a whole configuration.
func TestChangesFollowEachOther(t *testing.T) {
	var o Offer
	stream := o.Begin(o.in.GetRevision())
	add := func(c *controlv1.Configuration) *Configuration {
		t.Helper()
		c.Last = true
		out, err := stream.Add(c)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if c := add(full(1, 0, pool("a", 1), tenant("x", 1), tenant("y", 1))); c.Delta != nil || len(c.Config.Tenants) != 3 {
		t.Errorf("the first one: %+v", c)
	}
	c := add(&controlv1.Configuration{Revision: 2, Seed: 5, Resources: []*quotav1.Resource{tenant("x", 2)}})
	if d := c.Delta; c.Config != nil || d.Base != 1 || d.Revision != 2 || d.Shared != nil || len(d.Tenants) != 1 ||
		d.Tenants[0].Weight != 2 || c.Resources != 3 {
		t.Errorf("a change: %+v, %+v", c, c.Delta)
	}
	if _, err := stream.Add(&controlv1.Configuration{Revision: 3, Last: true, Seed: 5, Deleted: []string{"tenants/x"},
		Resources: []*quotav1.Resource{pool("b", -1), tenant("y", 3)}}); err == nil {
		t.Error("a bad change is taken")
	}
	c = add(&controlv1.Configuration{Revision: 4, Seed: 5, Resources: []*quotav1.Resource{pool("b", 1),
		{Kind: &quotav1.Resource_Override{Override: &quotav1.Override{Name: "tenants/y/limits/l/overrides/k", Rate: "3/s"}}}}})
	if d := c.Delta; d.Base != 2 || d.Shared == nil || len(d.Tenants) != 1 || d.Tenants[0].Name != "y" ||
		!slices.Equal(d.Removed, []string{"x"}) || len(c.Source.GetResources()) != 4 {
		t.Errorf("the repair: %+v of %+v", c.Delta, c.Source)
	}
	c = add(&controlv1.Configuration{Revision: 5, Seed: 6, Resources: []*quotav1.Resource{tenant("x", 7)}})
	if c.Delta != nil || c.Config.Seed != 6 || len(c.Config.Tenants) != 3 || len(c.Config.Overrides) != 1 {
		t.Errorf("with another seed: %+v", c)
	}
	if s := o.Source(); s.GetRevision() != 5 || s.GetSeed() != 6 || len(s.GetResources()) != 4 || !s.GetFull() {
		t.Errorf("in force: %+v", s)
	}
}

func tenant(name string, weight float64) *quotav1.Resource {
	return &quotav1.Resource{Kind: &quotav1.Resource_Tenant{Tenant: &quotav1.Tenant{Name: "tenants/" + name,
		Weight: weight}}}
}

// A coordinator does not believe the revision that its agent says it holds, and sends what it has
// whole: with one stream nobody else has brought it. So it comes into force.
func TestOneStreamBringsALowerRevision(t *testing.T) {
	var o Offer
	if _, err := o.Begin(0).Add(full(1<<60, 0, pool("a", 1))); err != nil {
		t.Fatal(err)
	}
	c, err := o.Begin(1 << 60).Add(full(7, 0, pool("a", 2), pool("b", 2)))
	if err != nil || c.Revision != 7 || o.Source().GetRevision() != 7 || len(o.Source().GetResources()) != 2 {
		t.Errorf("%+v, %v; in force: %v", c, err, o.Source())
	}
}

// Two coordinators bring the same changes. Each change is put in force once, whichever comes first, and the coordinator
// that is behind undoes nothing.
func TestTwoStreamsBringTheSame(t *testing.T) {
	var o Offer
	one, two := o.Begin(0), o.Begin(0)
	change := func(revision int64, r ...*quotav1.Resource) *controlv1.Configuration {
		return &controlv1.Configuration{Revision: revision, Last: true, Seed: 5, Resources: r}
	}
	for _, c := range []struct {
		what  string
		from  *Offered
		m     *controlv1.Configuration
		known bool
		wrong bool
	}{
		{"the whole", one, full(1, 0, pool("a", 1)), false, false},
		{"the word that it is held", two, change(1), false, false},
		{"a change", one, change(2, pool("a", 2), pool("b", 2)), false, false},
		{"the next one", one, change(3, pool("a", 3)), false, false},
		{"the change again", two, change(2, pool("a", 2), pool("b", 2)), true, false},
		{"two changes in one", two, change(4, pool("a", 4)), false, false},
		{"of which one is new", one, change(4, pool("a", 4)), true, false},
		{"what does not compile", one, change(5, pool("c", -1)), false, true},
		{"the same", two, change(5, pool("c", -1)), false, true},
		{"its repair", two, change(6, pool("c", 6)), false, false},
		{"the same", one, change(6, pool("c", 6)), true, false},
		{"a change after it", one, change(7, pool("a", 7)), false, false},
		{"another history", two, full(2, 0, pool("a", 2)), false, false},
	} {
		got, err := c.from.Add(c.m)
		if known := errors.Is(err, ErrKnown); known != c.known || (err != nil && !known) != c.wrong {
			t.Fatalf("%s of %d: %v, %v", c.what, c.m.GetRevision(), got, err)
		}
	}
	if in := o.Source(); in.GetRevision() != 2 || len(in.GetResources()) != 1 {
		t.Errorf("in force: %v", in)
	}
}
