package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

var start = time.Unix(1e9, 0)

// report reports an agent's state; nil means that it has not changed.
func report(f *Fleet, now time.Time, agent string, s *controlv1.State) {
	f.Report(now, agent, &controlv1.Report{State: s})
}

func fleet() *Fleet {
	f := &Fleet{}
	report(f, start, "a", &controlv1.State{Gateways: []*controlv1.GatewayState{
		{Name: "gw-1", NamesKnown: true, Identities: []string{"ip", "user"}, Classes: []string{"writes"},
			Costs: []string{"output"}},
		{Name: "gw-2", NamesKnown: true, Identities: []string{"ip"}, LeftOutTotal: 3,
			LeftOut: []*controlv1.LeftOut{{Tenant: "acme", Limit: "new", Reason: "is newer"}}},
		{Name: "gw-3"},
	}})
	report(f, start, "b", &controlv1.State{LeftOutTotal: 1,
		LeftOut:  []*controlv1.LeftOut{{Tenant: "acme", Limit: "quotas/api", Reason: "is wrong"}},
		Gateways: []*controlv1.GatewayState{{Name: "gw-4", Refused: 9, Reason: "too large"}}})
	report(f, start, "gone", &controlv1.State{Gateways: []*controlv1.GatewayState{{Name: "gw-9", NamesKnown: true,
		Identities: []string{"usr"}}}})
	return f
}

// Of the resources that are asked about, the first are found with a name that a gateway does not know.
func TestUnknown(t *testing.T) {
	limit := func(l *quotav1.Limit) *quotav1.Resource {
		return &quotav1.Resource{Kind: &quotav1.Resource_Limit{Limit: l}}
	}
	all := []*quotav1.Resource{
		limit(&quotav1.Limit{Name: "a", Cost: "output"}), limit(&quotav1.Limit{Name: "b", Identity: "ip"}),
		limit(&quotav1.Limit{Name: "c", Identity: "user"}), limit(&quotav1.Limit{Name: "d", Classes: []string{"writes"}}),
		limit(&quotav1.Limit{Name: "new"}),
		{Kind: &quotav1.Resource_Pool{Pool: &quotav1.Pool{Name: "e", Cost: "input"}}},
		{Kind: &quotav1.Resource_Tenant{Tenant: &quotav1.Tenant{Name: "f"}}},
	}
	f := fleet()
	for most, want := range map[int]string{2: "c d", 9: "c d e"} {
		var got []string
		keep := func(m resource.Message) bool { return m.GetName() != "a" }
		for _, s := range f.Unknown([]string{"a", "b"}, all, most, keep) {
			name, what, _ := strings.Cut(s, ": ")
			if got = append(got, name); !strings.Contains(what, "is not known to") || !strings.HasSuffix(what, ".") {
				t.Errorf("%q", s)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
	if got := f.Unknown(nil, all, 9, func(resource.Message) bool { return true }); len(got) > 0 {
		t.Errorf("%v of no agent", got)
	}
}

func TestDoubts(t *testing.T) {
	f := fleet()
	for _, c := range []struct {
		limit resource.Message
		field string
		words []string
	}{
		{&quotav1.Limit{Name: "tenants/acme/limits/a", Identity: "usr"}, "identity",
			[]string{`"usr" is not known to 2 of 2 gateways (gw-1, gw-2)`, "all clients are one",
				"known are ip, user"}},
		{&quotav1.Limit{Name: "tenants/acme/limits/a", Identity: "user"}, "identity",
			[]string{"1 of 2 gateways (gw-2)"}},
		{&quotav1.Limit{Name: "tenants/acme/limits/a", Identity: "ip", Classes: []string{"writes"}}, "classes[0]",
			[]string{"1 of 2", "no request is in it"}},
		{&quotav1.Limit{Name: "tenants/acme/limits/a", Identity: "ip"}, "", nil},
		{&quotav1.Limit{Name: "tenants/acme/limits/a", Cost: "output"}, "cost",
			[]string{`cost "output" is not known to 1 of 2 gateways (gw-2)`, "counts no request there"}},
		{&quotav1.Pool{Name: "pools/api", Cost: "input"}, "cost",
			[]string{"2 of 2 gateways", "known are output", "with their plain cost"}},
		{&quotav1.Pool{Name: "pools/api"}, "", nil},
		{&quotav1.Limit{Name: "tenants/acme/limits/new"}, "", []string{"not enforced by gateway gw-2: is newer"}},
	} {
		doubts, known := f.Doubts([]string{"a", "b"}, c.limit)
		if !known || (len(doubts) == 0) != (c.words == nil) {
			t.Errorf("%v: %v %v", c.limit, doubts, known)
			continue
		}
		for _, w := range c.words {
			if doubts[0].Field != c.field || !strings.Contains(doubts[0].Message, w) {
				t.Errorf("%v: %+v, want %s and %q", c.limit, doubts[0], c.field, w)
			}
		}
	}
	if doubts, _ := f.Doubts([]string{"a", "b"}, &quotav1.Quota{Name: "tenants/acme/quotas/api"}); len(doubts) != 1 ||
		doubts[0].Message != "not enforced by agent b: is wrong" {
		t.Errorf("quota: %v", doubts)
	}
	if _, known := f.Doubts(nil, &quotav1.Limit{Identity: "ip"}); known {
		t.Error("names are known without an agent")
	}
}

// A resource is in force where the gateway has the revision that stored it, and nobody there leaves it out.
// Rate limit services and gateways of older releases do not hold limits with a concurrency.
func TestDoubtsAboutConcurrency(t *testing.T) {
	f := &Fleet{}
	report(f, start, "a", &controlv1.State{Gateways: []*controlv1.GatewayState{
		{Name: "gw-1", Revision: 3, Features: []string{"concurrency"}}, {Name: "rls-1", Revision: 3}, {Name: "begins"}}})
	flight := &quotav1.Limit{Name: "tenants/acme/limits/a", Concurrency: 2}
	doubts, known := f.Doubts([]string{"a"}, flight)
	if !known || len(doubts) != 1 || doubts[0].Field != "concurrency" ||
		!strings.Contains(doubts[0].Message, "1 of 2 gateways do not hold") || !strings.Contains(doubts[0].Message, "(rls-1)") {
		t.Errorf("%v %v", doubts, known)
	}
	if doubts, _ := f.Doubts([]string{"a"}, &quotav1.Limit{Name: flight.Name, Rate: "1/s"}); len(doubts) != 0 {
		t.Errorf("a limit with a rate: %v", doubts)
	}
}

func TestInForce(t *testing.T) {
	reported := func(connected ...string) *Fleet {
		f := fleet()
		report(f, start, "c", &controlv1.State{LeftOutTotal: 65, LeftOut: []*controlv1.LeftOut{{Tenant: "bolt", Limit: "x"}},
			Gateways: []*controlv1.GatewayState{{Name: "gw-5", Revision: 20}}})
		report(f, start, "d", &controlv1.State{LeftOutTotal: 1, LeftOut: []*controlv1.LeftOut{{Tenant: "acme"}},
			Gateways: []*controlv1.GatewayState{{Name: "gw-7", Revision: 16}, {Name: "gw-6", Revision: 17, LeftOutTotal: 2,
				LeftOut: []*controlv1.LeftOut{{Tenant: "acme", Limit: "a"}, {Tenant: "bolt", Limit: "quotas/api"}}}}})
		for _, agent := range []string{"a", "b", "c", "d", "gone"} {
			if !slices.Contains(connected, agent) {
				f.Left(agent)
			}
		}
		return f
	}
	for _, c := range []struct {
		resource  resource.Message
		connected []string
		in, of    int
	}{
		{&quotav1.Limit{Name: "tenants/bolt/limits/a", Etag: "10"}, []string{"d"}, 2, 2},
		{&quotav1.Limit{Name: "tenants/bolt/limits/a", Etag: "11"}, []string{"d"}, 1, 2},
		{&quotav1.Limit{Name: "tenants/bolt/limits/a", Etag: "12"}, []string{"d"}, 0, 2},
		{&quotav1.Limit{Name: "tenants/acme/limits/a", Etag: "10"}, []string{"d"}, 0, 2},
		{&quotav1.Tenant{Name: "tenants/acme", Etag: "10"}, []string{"d"}, 0, 2},
		{&quotav1.Quota{Name: "tenants/bolt/quotas/api", Etag: "10"}, []string{"d"}, 1, 2},
		{&quotav1.Pool{Name: "pools/api", Etag: "11"}, []string{"c", "d"}, 2, 3},
		{&quotav1.Limit{Name: "tenants/bolt/limits/a", Etag: "11"}, []string{"c", "d"}, 1, 3}, // gw-5 does not name all
		{&quotav1.Limit{Name: "tenants/bolt/limits/a"}, []string{"d"}, 0, 2},
		{&quotav1.Limit{Name: "tenants/bolt/limits/a", Etag: "1"}, []string{"a"}, 0, 3}, // no configuration
		{&quotav1.Limit{Name: "tenants/bolt/limits/a", Etag: "1"}, nil, 0, 0},
	} {
		if in, of := reported(c.connected...).InForce(c.connected, c.resource); in != c.in || of != c.of {
			t.Errorf("%v at %v: %d of %d, want %d of %d", c.resource, c.connected, in, of, c.in, c.of)
		}
	}
	got := reported("b", "d").Gateways([]string{"b", "d"})
	if len(got) != 3 || got[0].Name != "gw-4" || got[0].Refused != 9 || got[1].Name != "gw-6" || got[1].LeftOut != 3 ||
		got[1].Agent != "d" || got[2].Revision != 16 {
		t.Errorf("%v", got)
	}
}

// A gateway is listed with what its agent reported last of the keys that it owns and of the way of claims.
func TestOwners(t *testing.T) {
	f := fleet()
	f.Report(start, "a", &controlv1.Report{Owned: 7, GossipDelay: durationpb.New(time.Second)})
	for _, g := range f.Gateways([]string{"a", "b"}) {
		owned, delay := int32(0), time.Duration(0)
		if g.GetAgent() == "a" {
			owned, delay = 7, time.Second
		}
		if g.GetOwned() != owned || g.GetDelay().AsDuration() != delay {
			t.Errorf("%v, want %d keys and %v", g, owned, delay)
		}
	}
}

// The gateways of an agent that is lost are shown with what they have, until the agent comes back, another
// agent has them, or ten minutes have passed. Nothing else of what the agent reported counts.
func TestLostAgents(t *testing.T) {
	one := func(name string, revision int64) *controlv1.State {
		return &controlv1.State{LeftOutTotal: 1, LeftOut: []*controlv1.LeftOut{{Tenant: "acme", Limit: "x"}},
			Gateways: []*controlv1.GatewayState{{Name: name, Revision: revision}}}
	}
	acme := &quotav1.Tenant{Name: "tenants/acme", Etag: "6"}
	hello := func(agent string, connected ...string) func(*Fleet) {
		return func(f *Fleet) { f.Hello(agent, func() []string { return connected }) }
	}
	for name, c := range map[string]struct {
		then  func(*Fleet)
		after time.Duration // of the last report
		want  string
	}{
		"lost":          {func(*Fleet) {}, Kept - time.Second, "gw-1 6, gw-2 5 lost; in force 1 of 2"},
		"others come":   {hello("c", "a", "c"), 0, "gw-1 6, gw-2 5 lost; in force 1 of 2"},
		"it comes back": {hello("b", "a", "b"), 0, "gw-1 6; in force 1 of 1"},
		"it left":       {func(f *Fleet) { f.Left("b") }, 0, "gw-1 6; in force 1 of 1"},
		"another has its gateway": {func(f *Fleet) { report(f, start, "a", one("gw-2", 6)) }, 0,
			"gw-2 6; in force 1 of 1"},
		"another that had its gateway is lost": {func(f *Fleet) {
			report(f, start.Add(-time.Second), "c", one("gw-2", 4))
		}, 0, "gw-1 6, gw-2 5 lost; in force 1 of 2"},
		"long ago":           {func(*Fleet) {}, Kept, "gw-1 6; in force 1 of 1"},
		"another leads now":  {func(f *Fleet) { f.Forget() }, 0, "; in force 0 of 0"},
		"asked before, long": {func(f *Fleet) { f.Gateways([]string{"a"}) }, Kept + 1, "gw-1 6; in force 1 of 1"},
	} {
		f := &Fleet{}
		report(f, start, "a", &controlv1.State{Gateways: []*controlv1.GatewayState{{Name: "gw-1", Revision: 6}}})
		report(f, start, "b", one("gw-2", 5))
		c.then(f)
		report(f, start.Add(c.after), "a", nil)
		var said []string
		for _, g := range f.Gateways([]string{"a"}) {
			text := fmt.Sprint(g.GetName(), " ", g.GetRevision())
			if g.GetHeard() != nil {
				text += " lost"
			}
			said = append(said, text)
		}
		in, of := f.InForce([]string{"a"}, acme)
		if got := fmt.Sprintf("%s; in force %d of %d", strings.Join(said, ", "), in, of); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if s := f.Summary([]string{"a"}); name == "lost" && s.LeftOut != 0 {
			t.Errorf("what a lost agent left out counts: %+v", s)
		}
	}
}

// A gateway that has gone from a lost agent to another one, and has ended there in order, does not come back
// as one of the lost agent.
func TestGatewayOfALostAgentEnds(t *testing.T) {
	had := func(names ...string) *controlv1.State {
		s := &controlv1.State{}
		for _, name := range names {
			s.Gateways = append(s.Gateways, &controlv1.GatewayState{Name: name, Revision: 6})
		}
		return s
	}
	for name, end := range map[string]func(*Fleet){
		"the gateway": func(f *Fleet) { report(f, start.Add(time.Minute), "b", had("gw-2")) },
		"the agent": func(f *Fleet) {
			report(f, start.Add(time.Minute), "c", nil)
			f.Left("b")
			report(f, start.Add(time.Minute), "b", had("gw-2"))
		},
	} {
		f := &Fleet{}
		report(f, start, "a", had("gw-1", "gw-3")) // and is lost
		report(f, start.Add(10*time.Second), "b", had("gw-1", "gw-2"))
		end(f)
		var names []string
		for _, g := range f.Gateways([]string{"b"}) {
			names = append(names, g.GetName())
		}
		if got := strings.Join(names, " "); got != "gw-2 gw-3" {
			t.Errorf("%s has ended: %s", name, got)
		}
	}
}

// However many agents come and go, a bounded number of lost ones is remembered, without their long parts.
func TestLostAgentsAreBounded(t *testing.T) {
	f := &Fleet{}
	for i := range 2 * mostLost {
		agent := fmt.Sprint("agent-", i)
		f.Hello(agent, func() []string { return []string{agent} })
		report(f, start, agent, &controlv1.State{LeftOut: []*controlv1.LeftOut{{Tenant: "acme"}},
			Gateways: []*controlv1.GatewayState{{Name: agent, Identities: []string{"ip"}}}})
	}
	if n := len(f.states); n > mostLost+2 {
		t.Errorf("%d agents are remembered", n)
	}
	long := 0
	for _, a := range f.states {
		if len(a.state.GetLeftOut()) > 0 || len(a.state.GetGateways()[0].GetIdentities()) > 0 {
			long++
		}
	}
	if long > 2 {
		t.Errorf("of %d lost agents more is remembered than their gateways", long)
	}
}

func TestSummary(t *testing.T) {
	f := fleet()
	s := f.Summary([]string{"a", "b"})
	if s.LeftOut != 3 || s.Refusing != 1 || s.First == nil ||
		!strings.Contains(s.First.Error(), "gw-4 refuses configuration 9: too large") {
		t.Errorf("%+v", s)
	}
	if s := f.Summary([]string{"a"}); s.Refusing != 0 ||
		!strings.Contains(s.First.Error(), `3 limits not enforced by gateway gw-2; the first is "new"`) {
		t.Errorf("%+v", s)
	}
	f.Hello("a", func() []string { return []string{"a", "b"} })
	if s := f.Summary([]string{"a", "gone"}); s.LeftOut+s.Refusing != 0 {
		t.Errorf("after a new Hello: %+v", s)
	}
	if s := f.Summary([]string{"b"}); s.LeftOut != 1 || s.Refusing != 1 {
		t.Errorf("of an agent that is still there: %+v", s)
	}
}

// What was reported counts at once, and so does who is connected.
func TestDoubtsFollowTheReports(t *testing.T) {
	f := fleet()
	limit := &quotav1.Limit{Name: "tenants/acme/limits/a", Identity: "ip"}
	check := func(when string, want int, connected ...string) {
		t.Helper()
		if doubts, _ := f.Doubts(connected, limit); len(doubts) != want {
			t.Errorf("%s: %v", when, doubts)
		}
	}
	check("all know the identity", 0, "a", "b")
	check("one that does not has connected", 1, "a", "b", "gone")
	report(f, start, "b", &controlv1.State{Gateways: []*controlv1.GatewayState{{Name: "gw-4", NamesKnown: true}},
		LeftOut: []*controlv1.LeftOut{{Tenant: "acme", Reason: "is wrong"}}})
	check("one has reported other names, and that it leaves out the tenant", 2, "a", "b")
	f.Hello("b", func() []string { return []string{"a", "b"} })
	check("it has begun again", 0, "a", "b")
}

// A page of resources, of which most are right, with so many agents that have all left out some.
func BenchmarkDoubts(b *testing.B) {
	for _, agents := range []int{10, 100, 1000} {
		f := &Fleet{}
		var connected []string
		for i := range agents {
			name := fmt.Sprintf("agent-%04d", i)
			connected = append(connected, name)
			g := &controlv1.GatewayState{Name: "gw-" + name, NamesKnown: true, Identities: []string{"ip", "user", "org"},
				Classes: []string{"reads", "writes"}, LeftOutTotal: 3}
			for k := range 3 {
				g.LeftOut = append(g.LeftOut, &controlv1.LeftOut{Tenant: fmt.Sprintf("t%d", k), Limit: "a", Reason: "is newer"})
			}
			report(f, start, name, &controlv1.State{Gateways: []*controlv1.GatewayState{g}})
		}
		b.Run(fmt.Sprintf("agents=%d", agents), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				f.Doubts(connected, &quotav1.Limit{Name: fmt.Sprintf("tenants/t%d/limits/a", i%1000), Identity: "user"})
			}
		})
	}
}
