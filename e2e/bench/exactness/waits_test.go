package exactness

import "testing"

// Envoy's text of a histogram and a counter, twice.
const page = `dynamicmodulescustom.titrate_exact_unanswered_total: 3
dynamicmodulescustom.titrate_exact_waited_total: 100
dynamicmodulescustom.titrate_wait_ms.pool.api.outcome.admitted:
  totals=0,0:60, 1,0.1:30, 2,0.1:8, 10,1:1
  intervals=0,0:1
  summary=P0(0,0) P50(0,0)
dynamicmodulescustom.titrate_wait_ms.pool.api.outcome.refused:
  totals=2,0.1:1
  intervals=
  summary=P0(nan,2)
http.http.downstream_rq_time:
  totals=7,0.1:5
`

func TestWaitsAreRead(t *testing.T) {
	h := &held{waits: map[int]float64{}}
	for range 2 {
		if err := h.read(page); err != nil {
			t.Fatal(err)
		}
	}
	if h.count() != 200 || h.unanswered != 6 || h.within(.5) != .5 || h.within(.9) != 1.5 || h.within(.99) != 2.5 ||
		h.within(1) != 10.5 {
		t.Errorf("%+v: %v held, p50 %v, p90 %v, p99 %v", h, h.count(), h.within(.5), h.within(.9), h.within(.99))
	}
	if d := h.since(&held{waits: map[int]float64{0: 120, 2: 18}, unanswered: 5}); d.count() != 62 || d.unanswered != 1 ||
		d.within(.5) != 1.5 {
		t.Errorf("since: %+v", d)
	}
	if err := h.read("titrate_wait_ms:\n  totals=1;2"); err == nil {
		t.Error("no error for what is no histogram")
	}
}
