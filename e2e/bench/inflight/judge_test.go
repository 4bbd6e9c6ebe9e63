package inflight

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/e2e/bench/openloop"
)

const ms = time.Millisecond

// Levels, their maximum and their integral are as the visits say, counted one by one.
func TestHistoryCountsVisits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var visits []visit
		for range rapid.IntRange(0, 20).Draw(t, "n") {
			from := time.Duration(rapid.IntRange(1, 50).Draw(t, "from"))
			stay := time.Duration(rapid.IntRange(1, 20).Draw(t, "stay"))
			visits = append(visits, visit{from * ms, (from + stay) * ms})
		}
		h := historyOf(visits)
		most, sum := 0, 0.0
		for at := range 80 * ms / ms {
			n := 0
			for _, v := range visits {
				if v.from <= at*ms && at*ms < v.to {
					n++
				}
			}
			if got := h.at(at * ms); got != n {
				t.Fatalf("%d at %v, want %d", got, at*ms, n)
			}
			most = max(most, n)
			if at >= 10 && at < 60 {
				sum += float64(n) * ms.Seconds()
			}
		}
		if got := h.sum(10*ms, 60*ms); h.most() != most || math.Abs(got-sum) > 1e-9 {
			t.Fatalf("at most %d and %v in all, want %d and %v", h.most(), got, most, sum)
		}
	})
}

// A limit of one: a refusal beside a request at the upstream is right. While the answer is on its way to the
// gateway it is wrong for the upstream only. After that it is wrong for the gateways, too.
func TestRefusedWrongly(t *testing.T) {
	p := &plan{stays: []time.Duration{40 * ms, 10 * ms, 10 * ms, 10 * ms, 10 * ms}}
	visits := []visit{{11 * ms, 51 * ms}, {}, {}, {}, {}}
	result := func(request int32, due, sent, done time.Duration, status int) openloop.Result {
		return openloop.Result{Shot: openloop.Shot{Due: due, Request: request}, Sent: sent, Done: done, Status: status}
	}
	results := []openloop.Result{
		result(0, 9*ms, 10*ms, 54*ms, statusServed),
		result(1, 20*ms, 20*ms, 40*ms, statusRefused),
		result(2, 32*ms, 32*ms, 54*ms-ms/4, statusRefused),
		result(3, 40*ms, 40*ms, 60*ms, statusRefused),
		result(4, 70*ms, 0, 0, 0),
		result(4, 100*ms, 100*ms, 100*ms, statusRefused), // after the end
	}
	y := &tally{limit: 1}
	y.take(p, results, visits, 0, 100*ms)
	f := y.figures()
	if f.Asked != 5 || f.Served != 1 || f.Refused != 3 || f.Failed != 1 || f.Most != 1 || f.Void {
		t.Errorf("%+v", f)
	}
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"wanted", f.Wanted, .8}, {"use", f.Use, .5}, {"use at the gateways", f.Held, .43 / .8},
		{"refused wrongly", f.Wrongly, .4}, {"at the gateways", f.Free, .2},
		{"added, ms", f.AddedMs, 4}, {"late, ms", f.LateMs, 1},
	} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
}

func TestALateGeneratorProvesNothing(t *testing.T) {
	y := &tally{limit: 1}
	late := openloop.Result{Shot: openloop.Shot{Due: ms}, Sent: 30 * ms, Done: 31 * ms, Status: statusRefused}
	y.take(&plan{stays: []time.Duration{ms}}, []openloop.Result{late}, []visit{{}}, 0, 100*ms)
	if f := y.figures(); !f.Void {
		t.Errorf("%+v is not void", f)
	}
}

// A plan has the cell's rate and mean stay, through all gateways alike. Its requests say what the upstream does.
func TestPlanIsWhatTheCellSays(t *testing.T) {
	c := &cell{limit: 20, stay: 200 * ms, wanted: 1.5}
	const d = 100 * time.Second
	p := c.plan(d, 1)
	n := c.rate() * d.Seconds()
	var through [gateways]float64
	mean := 0.0
	for i, s := range p.shots {
		if s.Request != int32(i) || i > 0 && s.Due < p.shots[i-1].Due {
			t.Fatalf("shot %d: %+v", i, s)
		}
		through[s.Target]++
		mean += p.stays[i].Seconds() / float64(len(p.shots))
	}
	for _, got := range through {
		if room := 5 * math.Sqrt(n/gateways); math.Abs(got-n/gateways) > room {
			t.Errorf("%v requests through a gateway, want %v ± %v", got, n/gateways, room)
		}
	}
	if want := c.stay.Seconds(); math.Abs(mean-want) > 5*want/math.Sqrt(n) {
		t.Errorf("mean stay %v, want %v", mean, want)
	}
	want := "GET / HTTP/1.1\r\nhost: bench\r\nx-tenant: a\r\nx-client: one\r\nx-stay: 1500\r\nx-number: 7\r\n\r\n"
	if got := string(request("a", 1500*time.Microsecond, 7)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
