package queue

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

const unit = 1_000_000 // one cost unit

// Deficit round robin: while all wait, every client gets the same cost, within
// one request of the largest, whatever its requests cost.
func TestPropertyRoundRobinIsFairInCost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := New[int, struct{}](0)
		n := rapid.IntRange(2, 6).Draw(t, "clients")
		largest := int64(0)
		for c := range n {
			cost := rapid.Int64Range(1, 9).Draw(t, "cost") * unit
			largest = max(largest, cost)
			for range 60 * 9 * unit / cost {
				q.Push(uint64(c), fmt.Sprint(c), Entry[int]{Request: c, Cost: cost, Eligible: true})
			}
		}
		got := make([]int64, n)
		for range rapid.IntRange(1, 50*n).Draw(t, "releases") {
			i := q.Next(math.MaxInt64/4, 1)
			got[q.Entry(i).Request] += q.Entry(i).Cost
			q.Serve(i)
		}
		low, high := got[0], got[0]
		for _, x := range got {
			low, high = min(low, x), max(high, x)
		}
		if high-low > 2*largest {
			t.Fatalf("served %v, want equal within two requests of %d", got, largest)
		}
	})
}

// Whatever the costs: while two clients both wait, what they have been served
// and what is saved for their heads differ by at most two quanta.
func TestPropertyTurnsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := New[int, struct{}](0)
		n := rapid.IntRange(2, 6).Draw(t, "clients")
		costs := rapid.SampledFrom([]int64{1, unit / 1000, unit, 7 * unit, 1000 * unit})
		for c := range n {
			cost := [3]int64{costs.Draw(t, "cost"), costs.Draw(t, "cost"), costs.Draw(t, "cost")}
			for k := range 200 {
				q.Push(uint64(c)+1, "", Entry[int]{Request: c, Cost: cost[k%3], Eligible: true, Class: Back})
			}
		}
		step := rapid.Int64Range(unit/10, 100*unit).Draw(t, "step")
		got := make([]int64, n)
		credit, largest := int64(0), int64(0)
		for range 50 {
			credit += rapid.Int64Range(0, 100*unit).Draw(t, "credit")
			for q.Eligible() > 0 {
				largest = max(largest, q.quantum(step))
				i := q.Next(credit-q.Saved(), step)
				if i == Nobody {
					break
				}
				got[q.Entry(i).Request] += q.Entry(i).Cost
				credit -= q.Entry(i).Cost
				q.Serve(i)
			}
			low, high := int64(1<<62), int64(0)
			for c := range n {
				s := q.Find(uint64(c) + 1)
				if s == nil {
					return // one has nothing left
				}
				low, high = min(low, got[c]+s.deficit), max(high, got[c]+s.deficit)
			}
			if high-low > 2*largest {
				t.Fatalf("clients have had %d to %d, want equal within two quanta of %d", low, high, largest)
			}
			if err := q.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
