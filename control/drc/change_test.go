package drc

import (
	"math"
	"testing"
)

// A changed limit carries over what is spent. Admissions of the time before, received later, owe no
// more than an empty bucket, and a change of the membership carries nothing over.
func TestLedgerLimitChanges(t *testing.T) {
	const lag = .25
	for _, tc := range []struct {
		name      string
		from, to  LedgerParams
		spent     float64
		want      float64
		otherwise float64 // received from another replica right after the change
	}{
		{"lowered", LedgerParams{Rate: 1000 / 60., Burst: 1000}, LedgerParams{Rate: 1, Burst: 60}, 900, 54, 0},
		{"raised", LedgerParams{Rate: 1, Burst: 60}, LedgerParams{Rate: 10, Burst: 600}, 60, 60, 0},
		{"a lower rate", LedgerParams{Rate: 10, Burst: 100}, LedgerParams{Rate: .1, Burst: 100}, 60, 60, 0},
		{"others have admitted 300", LedgerParams{Rate: 1000, Burst: 1000}, LedgerParams{Rate: 1, Burst: 10}, 900, 10, 300},
		{"another membership", LedgerParams{Rate: 1, Burst: 60}, LedgerParams{Rate: 1, Burst: 60, Replicas: 9}, 50, 50, 0},
	} {
		tc.from.Replicas, tc.to.Replicas = max(2, tc.from.Replicas), max(2, tc.to.Replicas)
		tc.from.Lag, tc.to.Lag = lag, lag
		l := NewLedger(tc.from, 0)
		if charged := l.Owe(0, tc.spent, math.Inf(1)); charged != tc.spent {
			t.Fatal(charged)
		}
		l.Configure(tc.to, 0)
		l.Hear(0, LedgerSums{Admitted: tc.otherwise, Spent: tc.otherwise, Own: tc.otherwise, Epoch: 1})
		if got := l.Spent(); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%s: %v is spent, want %v", tc.name, got, tc.want)
		}
		if wait := l.Wait(0, 1); wait > 1/tc.to.Rate+1e-9 {
			t.Errorf("%s: a request has to wait for %v s", tc.name, wait)
		}
	}
	// Debt is owed only as far as the bucket goes.
	l := NewLedger(LedgerParams{Rate: 10, Burst: 10}, 0)
	l.Owe(0, 20, math.Inf(1))
	if l.Configure(LedgerParams{Rate: 1, Burst: 5}, 0); l.Spent() != 5 || l.Wait(0, 1) != 1 {
		t.Errorf("%v is owed of a burst of 5", l.Spent())
	}
}
