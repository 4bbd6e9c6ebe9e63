package cli

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// none stands in a cell that has nothing to say.
const none = "-"

// tableOf lays resources of one kind out; all must be of the kind.
func tableOf(kind resource.Kind, ms []resource.Message) *table {
	t := &table{columns: columnsOf[kind]}
	shared := kind == resource.Pool && severalLead(ms)
	if shared {
		t.columns = append(slices.Clone(t.columns), column{"LEADER", false})
	}
	for _, m := range ms {
		switch m := m.(type) {
		case *quotav1.Pool:
			row := poolRow(m)
			if shared {
				row = append(row, cmp.Or(m.GetStatus().GetLeader(), none))
			}
			t.add(row...)
		case *quotav1.Tenant:
			t.add(m.Name, number(m.Weight), cmp.Or(m.DisplayName, none))
		case *quotav1.Quota:
			t.add(quotaRow(m)...)
		case *quotav1.Limit:
			t.add(limitRow(m)...)
		}
	}
	return t
}

var columnsOf = map[resource.Kind][]column{
	resource.Pool: {{"POOL", false}, {"CAPACITY", true}, {"DEMAND", true}, {"ADMITTED", true},
		{"FAIR", true}, {"PRICE", true}, {"SHARING", false}, {"STATE", false}},
	resource.Tenant: {{"TENANT", false}, {"WEIGHT", true}, {"DISPLAY NAME", false}},
	resource.Quota: {{"QUOTA", false}, {"GUARANTEED", true}, {"MAX", true}, {"WEIGHT", true}, {"MODE", false},
		{"DEMAND", true}, {"SHARE", true}, {"ADMITTED", true}, {"BOUND BY", false}},
	resource.Limit: {{"LIMIT", false}, {"RATE", true}, {"BURST", true}, {"KEY", false}, {"POOLS", false},
		{"OVERRIDES", true}, {"QUEUE", false}, {"MODE", false}},
}

// severalLead reports whether pools have several leaders.
func severalLead(pools []resource.Message) bool {
	first := ""
	for _, m := range pools {
		leader := m.(*quotav1.Pool).GetStatus().GetLeader()
		if first != "" && leader != "" && leader != first {
			return true
		}
		first = cmp.Or(first, leader)
	}
	return false
}

func poolRow(p *quotav1.Pool) []string {
	sharing := p.Sharing.String()
	if p.Sharing == quotav1.Sharing_PROPORTIONAL {
		sharing += fmt.Sprintf("(%g)", p.Alpha)
	}
	row := []string{p.Name, perSecond(p.Capacity)}
	if s := p.Status; s != nil {
		if p.Adaptive != nil {
			row[1] = perSecond(s.Capacity) + " (adaptive)"
		}
		fair := none
		if s.FairRate > 0 {
			fair = perSecond(s.FairRate)
		}
		row = append(row, perSecond(s.Demand), perSecond(s.Admitted), fair, number(s.Price))
	} else {
		row = append(row, none, none, none, none)
	}
	return append(row, sharing, poolState(p.Status))
}

func poolState(s *quotav1.PoolStatus) string {
	switch {
	case s == nil:
		return none
	case s.InfeasibleGuarantees:
		return "GUARANTEES EXCEED CAPACITY"
	case s.FairRate > 0:
		return "FULL"
	}
	return "SLACK"
}

func quotaRow(q *quotav1.Quota) []string {
	row := []string{q.Name, perSecond(q.Guaranteed), none, none, q.Mode.String()}
	if q.Max != nil {
		row[2] = perSecond(q.GetMax()) + blocks(q.GetMax() == 0)
	}
	if q.Weight != nil {
		row[3] = number(q.GetWeight())
	}
	s := q.Status
	if s == nil {
		return append(row, none, none, none, none)
	}
	bound := s.BoundBy.String()
	if s.BoundBy == quotav1.Bound_BOUND_UNSPECIFIED {
		bound = none
	}
	if s.Stale {
		bound += " (stale)"
	}
	return append(row, perSecond(s.Demand), perSecond(s.Share), perSecond(s.Admitted), bound)
}

func limitRow(l *quotav1.Limit) []string {
	burst := none
	if rate, err := resource.ParseRate(l.Rate); err == nil && rate > 0 {
		burst = number(resource.Burst(rate, l.Burst))
		if l.Burst == 0 {
			burst += " (old default)"
		}
	}
	pools := "all"
	if len(l.Pools) > 0 {
		pools = strings.Join(l.Pools, ",")
	}
	mode := l.Mode.String()
	if l.Strict {
		mode += " (strict)"
	}
	if l.Precision == quotav1.Precision_EXACT {
		mode += " (exact)"
	}
	return []string{l.Name, l.Rate + blocks(blocked(l.Rate)), burst, l.Key.String(), pools,
		strconv.Itoa(len(l.Overrides)), l.Queue.GetAqm().String(), mode}
}

// blocks marks a 0 that refuses everything.
func blocks(yes bool) string {
	if yes {
		return " (blocked)"
	}
	return ""
}

// writeTables writes a table for each kind, an empty line between two.
func writeTables(w io.Writer, ms []resource.Message) error {
	first := true
	for _, kind := range resource.Kinds {
		var ofKind []resource.Message
		for _, m := range ms {
			if resource.KindOf(m) == kind {
				ofKind = append(ofKind, m)
			}
		}
		if len(ofKind) == 0 {
			continue
		}
		if !first {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		first = false
		if err := tableOf(kind, ofKind).write(w); err != nil {
			return err
		}
	}
	return nil
}

// perSecond writes a rate in cost units per second.
func perSecond(x float64) string { return number(x) + "/s" }

// number writes at most one decimal of large and three digits of small numbers.
func number(x float64) string {
	if x == 0 || math.Abs(x) >= 1 {
		return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}
