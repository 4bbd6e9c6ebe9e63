package fleet

import (
	"slices"
	"strings"
	"testing"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"google.golang.org/protobuf/types/known/durationpb"
)

func TestPrecision(t *testing.T) {
	f, agents := &Fleet{}, []string{"a", "b"}
	plain := func(change func(*quotav1.Limit)) *quotav1.Limit {
		l := &quotav1.Limit{Name: "tenants/a/limits/l", Rate: "1/s"}
		if change != nil {
			change(l)
		}
		return l
	}
	check := func(when string, l *quotav1.Limit, want quotav1.Precision, words string) {
		t.Helper()
		if p, why := f.Precision(agents, l); p != want || why != words {
			t.Errorf("%s: %v, %q, want %v, %q", when, p, why, want, words)
		}
	}
	const unsaid, local, exact = quotav1.Precision_PRECISION_UNSPECIFIED, quotav1.Precision_LOCAL, quotav1.Precision_EXACT
	check("no agent has said", plain(nil), unsaid, "")
	for _, a := range []string{"a", "b"} {
		report(f, start, a, &controlv1.State{Exact: true, ExactWhy: "agents within 2ms",
			Way: durationpb.New(400 * time.Microsecond)})
	}
	check("all are near", plain(nil), exact, "agents within 2ms: 400µs")
	check("with a queue", plain(func(l *quotav1.Limit) { l.Queue = &quotav1.Queue{} }), local, "it has a queue")
	check("SHADOW", plain(func(l *quotav1.Limit) { l.Mode = quotav1.Mode_SHADOW }), local, "it is SHADOW")
	check("stated", plain(func(l *quotav1.Limit) { l.Precision = local }), local, "")
	check("OFF", plain(func(l *quotav1.Limit) { l.Mode = quotav1.Mode_OFF }), unsaid, "")
	report(f, start, "b", &controlv1.State{ExactWhy: "3ms to a, beyond --exact-within 2ms"})
	check("they are LOCAL at one of two", plain(nil), local, "3ms to a, beyond --exact-within 2ms (agent b)")
	report(f, start, "c", &controlv1.State{Exact: true, ExactWhy: "agents within 2ms"})
	agents = append(agents, "c")
	check("they are LOCAL at one of three", plain(nil), exact,
		"agents within 2ms: 400µs; LOCAL at some: 3ms to a, beyond --exact-within 2ms (agent b)")
	check("stated EXACT", plain(func(l *quotav1.Limit) { l.Precision = exact }), exact, "")
}

// A limit of the scope GLOBAL is EXACT while no site is cut off. Where the way between sites is too long for its burst
// that is doubted.
func TestGlobal(t *testing.T) {
	f, agents := &Fleet{}, []string{"a", "b"}
	l := &quotav1.Limit{Name: "tenants/a/limits/l", Rate: "10/s", Burst: 20, Precision: quotav1.Precision_EXACT,
		Scope: quotav1.Scope_GLOBAL}
	sites := func(way time.Duration, reachable bool) {
		for agent, site := range map[string][2]string{"a": {"eu", "us"}, "b": {"us", "eu"}} {
			report(f, start, agent, &controlv1.State{Site: site[0], Sites: []*controlv1.OtherSite{
				{Name: site[1], Reachable: reachable, Way: durationpb.New(way)}}})
		}
	}
	check := func(want quotav1.Precision, words string, doubts ...string) {
		t.Helper()
		if p, why := f.Precision(agents, l); p != want || why != words {
			t.Errorf("%v, %q, want %v, %q", p, why, want, words)
		}
		all, _ := f.Doubts(agents, l)
		got := []string{}
		for _, d := range all {
			got = append(got, d.Field+": "+d.Message)
		}
		if !slices.Equal(got, doubts) && len(got)+len(doubts) > 0 {
			t.Errorf("doubts %q, want %q", got, doubts)
		}
	}
	check(quotav1.Precision_EXACT, "over all sites")
	sites(40*time.Millisecond, true)
	check(quotav1.Precision_EXACT, "over all sites: 40ms between site eu and site us")
	sites(300*time.Millisecond, true)
	const doubt = "scope: burst 20 is below 8 x rate x 300ms, the way between site eu and site us: requests within the " +
		"limit may be refused; a burst of 24 is enough"
	check(quotav1.Precision_EXACT, "over all sites: 300ms between site eu and site us", doubt)
	l.Plans = []*quotav1.LimitPlan{{Plan: "free", Rate: "100/s", Burst: 20}}
	sites(40*time.Millisecond, true)
	check(quotav1.Precision_EXACT, "over all sites: 40ms between site eu and site us", strings.NewReplacer("300", "40",
		"24", "32").Replace(doubt))
	l.Plans = nil
	sites(40*time.Millisecond, false)
	check(quotav1.Precision_LOCAL, "a site is cut off from site eu")
}
