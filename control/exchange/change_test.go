package exchange_test

import (
	"maps"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/exchange"
)

// heard is the state of a gateway after it has received some sums.
type heard struct {
	flows map[uint64]exchange.FlowSum
	keys  map[uint64]exchange.KeySum
	named map[uint64]bool // by a Full state that is not complete yet
}

func (h *heard) take(s *exchange.Sums) {
	if s.Full {
		h.named = map[uint64]bool{}
	}
	for _, f := range s.Flows {
		h.flows[f.Key] = f
	}
	for _, k := range s.Keys {
		h.keys[k.Key] = k
	}
	for _, k := range s.Gone {
		delete(h.flows, k)
		delete(h.keys, k)
	}
	if h.named == nil {
		return
	}
	for _, f := range s.Flows {
		h.named[f.Key] = true
	}
	for _, k := range s.Keys {
		h.named[k.Key] = true
	}
	if !s.More {
		maps.DeleteFunc(h.flows, func(k uint64, _ exchange.FlowSum) bool { return !h.named[k] })
		maps.DeleteFunc(h.keys, func(k uint64, _ exchange.KeySum) bool { return !h.named[k] })
		h.named = nil
	}
}

func hearAll(all ...*exchange.Sums) *heard {
	h := &heard{flows: map[uint64]exchange.FlowSum{}, keys: map[uint64]exchange.KeySum{}}
	for k := range uint64(12) { // what is known before
		h.flows[k], h.keys[k+100] = exchange.FlowSum{Key: k, Claims: 99}, exchange.KeySum{Key: k + 100, Spent: 99}
	}
	for _, s := range all {
		h.take(s)
	}
	return h
}

func drawSums(t *rapid.T) *exchange.Sums {
	s := &exchange.Sums{Full: rapid.Bool().Draw(t, "full"), Replicas: rapid.IntRange(1, 9).Draw(t, "replicas")}
	for k := range uint64(12) {
		x := float64(rapid.IntRange(1, 9).Draw(t, "value"))
		switch rapid.IntRange(0, 5).Draw(t, "what") {
		case 0:
			s.Flows = append(s.Flows, exchange.FlowSum{Key: k, Claims: x})
		case 1:
			s.Keys = append(s.Keys, exchange.KeySum{Key: k + 100, Admitted: x})
		case 2:
			s.Gone = append(s.Gone, k)
		case 3:
			s.Gone = append(s.Gone, k+100)
		}
	}
	if s.Full {
		s.Gone = nil
	}
	return s
}

// clone is a copy that shares no memory: Add may reuse that of both.
func clone(s *exchange.Sums) *exchange.Sums {
	c := *s
	c.Flows = append([]exchange.FlowSum(nil), s.Flows...)
	c.Keys = append([]exchange.KeySum(nil), s.Keys...)
	c.Gone = append([]uint64(nil), s.Gone...)
	return &c
}

// Sums that are added up, or cut into parts, say the same.
func TestSumsAddedAndCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Custom(drawSums), 1, 5).Draw(t, "sums")
		want := hearAll(all...)
		sum := clone(all[0])
		for _, s := range all[1:] {
			sum.Add(clone(s))
		}
		if got := hearAll(sum); !reflect.DeepEqual(got, want) || sum.Replicas != all[len(all)-1].Replicas {
			t.Fatalf("the sum %+v of %+v says %+v, want %+v", sum, all, got, want)
		}
		parts := sum.Parts(rapid.IntRange(1, 9).Draw(t, "most"))
		if got := hearAll(parts...); !reflect.DeepEqual(got, want) {
			t.Fatalf("the parts of %+v say %+v, want %+v", sum, got, want)
		}
	})
}

func TestClaimsCut(t *testing.T) {
	c := &exchange.Claims{Flows: make([]exchange.FlowClaim, 3), Keys: make([]exchange.KeyClaim, 4),
		Withdrawn: []uint64{1, 2, 3}}
	for most := 1; most <= 11; most++ {
		var sum exchange.Claims
		for _, p := range c.Parts(most) {
			if n := len(p.Flows) + len(p.Keys) + len(p.Withdrawn); n > most {
				t.Errorf("a part of %d records, want %d at most", n, most)
			}
			sum.Flows, sum.Keys = append(sum.Flows, p.Flows...), append(sum.Keys, p.Keys...)
			sum.Withdrawn = append(sum.Withdrawn, p.Withdrawn...)
		}
		if !reflect.DeepEqual(&sum, c) {
			t.Errorf("in parts of %d: %+v, want %+v", most, sum, c)
		}
	}
	if n := len((&exchange.Claims{}).Parts(5)); n != 1 {
		t.Errorf("empty claims in %d parts, want 1", n)
	}
}
