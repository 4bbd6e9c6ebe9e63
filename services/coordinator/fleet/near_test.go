package fleet

import (
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
