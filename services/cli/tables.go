package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/store/resource"
)

// tableOf lays resources of one kind out; all must be of the kind.
func tableOf(kind resource.Kind, ms []resource.Message, wide bool) *command.Table {
	t := &command.Table{Columns: slices.Clone(columnsOf[kind])}
	shared, planned := kind == resource.Pool && severalLead(ms), slices.ContainsFunc(ms, hasPlan)
	if shared {
		t.Columns = append(t.Columns, command.Column{Title: "LEADER"})
	}
	if planned {
		t.Columns = append(t.Columns, command.Column{Title: "PLAN"})
	}
	if wide {
		t.Columns = append(t.Columns, wideColumnsOf[kind]...)
	}
	for _, m := range ms {
		row, more := rowOf(m)
		if shared {
			row = append(row, cmp.Or(m.(*quotav1.Pool).GetStatus().GetLeader(), command.None))
		}
		if planned {
			row = append(row, cmp.Or(m.(*quotav1.Tenant).GetPlan(), command.None))
		}
		if wide {
			row = append(row, more...)
		}
		t.Add(row...)
	}
	return t
}

func hasPlan(m resource.Message) bool {
	t, is := m.(*quotav1.Tenant)
	return is && t.GetPlan() != ""
}

// rowOf returns the cells of a resource, and the additional cells of a wide table.
func rowOf(m resource.Message) (row, more []string) {
	owner := cmp.Or(m.GetSet(), command.None)
	switch m := m.(type) {
	case *quotav1.Pool:
		return poolRow(m), []string{cmp.Or(m.Cost, command.None), m.Queue.GetAqm().String(), m.OnLoss.String(),
			inForce(m.Status), owner}
	case *quotav1.Plan:
		return []string{m.Name, command.Number(m.Weight), inForce(m.Status), cmp.Or(m.DisplayName, command.None)},
			[]string{owner}
	case *quotav1.Tenant:
		weight := command.None // its plan's
		if m.Weight > 0 {
			weight = command.Number(m.Weight)
		}
		return []string{m.Name, weight, inForce(m.Status), cmp.Or(m.DisplayName, command.None)}, []string{owner}
	case *quotav1.Quota:
		return quotaRow(m), []string{inForce(m.Status), owner}
	case *quotav1.Limit:
		return limitRow(m), append(limitMore(m), owner)
	case *quotav1.Override:
		return overrideRow(m), []string{owner}
	}
	return nil, nil
}

// inForce says at how many gateways a resource is in force as it is stored.
func inForce(s interface {
	GetInForce() int32
	GetGateways() int32
}) string {
	if s.GetGateways() == 0 {
		return command.None
	}
	return fmt.Sprintf("%d/%d", s.GetInForce(), s.GetGateways())
}

var columnsOf = map[resource.Kind][]command.Column{
	resource.Pool: command.Columns("POOL", "#CAPACITY", "#DEMAND", "#ADMITTED",
		"#FAIR", "#PRICE", "SHARING", "STATE"),
	resource.Plan:   command.Columns("PLAN", "#WEIGHT", "IN FORCE", "DISPLAY NAME"),
	resource.Tenant: command.Columns("TENANT", "#WEIGHT", "IN FORCE", "DISPLAY NAME"),
	resource.Quota: command.Columns("QUOTA", "#GUARANTEED", "#MAX", "#WEIGHT", "MODE",
		"#DEMAND", "#SHARE", "#ADMITTED", "BOUND BY"),
	resource.Limit: command.Columns("LIMIT", "#RATE", "#BURST", "PER", "CLASSES",
		"MODE", "IN FORCE"),
	resource.Override: command.Columns("OVERRIDE", "#RATE", "#BURST", "UNTIL", "IN FORCE"),
}

// wideColumnsOf stand behind columnsOf in a wide table.
var wideColumnsOf = map[resource.Kind][]command.Column{
	resource.Pool:   command.Columns("COST", "QUEUE", "ON LOSS", "IN FORCE", "SET"),
	resource.Plan:   command.Columns("SET"),
	resource.Tenant: command.Columns("SET"),
	resource.Quota:  command.Columns("IN FORCE", "SET"),
	resource.Limit: command.Columns("COST", "POOLS", "#OVERRIDES", "QUEUE", "PRECISION",
		"SET"),
	resource.Override: command.Columns("SET"),
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
	row := []string{p.Name, command.PerSecond(p.Capacity)}
	if s := p.Status; s != nil {
		if p.Adaptive != nil {
			row[1] = command.PerSecond(s.Capacity) + " (adaptive)"
		}
		fair := command.None
		if s.FairRate > 0 {
			fair = command.PerSecond(s.FairRate)
		}
		row = append(row, command.PerSecond(s.Demand), command.PerSecond(s.Admitted), fair, command.Number(s.Price))
	} else {
		row = append(row, command.None, command.None, command.None, command.None)
	}
	return append(row, sharing, poolState(p.Status))
}

func poolState(s *quotav1.PoolStatus) string {
	switch {
	case s == nil:
		return command.None
	case s.InfeasibleGuarantees:
		return "GUARANTEES EXCEED CAPACITY"
	case s.FairRate > 0:
		return "FULL"
	}
	return "SLACK"
}

func quotaRow(q *quotav1.Quota) []string {
	row := []string{q.Name, command.PerSecond(q.Guaranteed), command.None, command.None, modeOf(q.Mode.String(), q)}
	if q.Max != nil {
		row[2] = command.PerSecond(q.GetMax()) + blocks(q.GetMax() == 0)
	}
	if q.Weight != nil {
		row[3] = command.Number(q.GetWeight())
	}
	s := q.Status
	if s == nil {
		return append(row, command.None, command.None, command.None, command.None)
	}
	bound := s.BoundBy.String()
	if s.BoundBy == quotav1.Bound_BOUND_UNSPECIFIED {
		bound = command.None
	}
	if s.Stale {
		bound += " (stale)"
	}
	return append(row, command.PerSecond(s.Demand), command.PerSecond(s.Share), command.PerSecond(s.Admitted), bound)
}

func limitRow(l *quotav1.Limit) []string {
	burst := command.None
	if rate, err := resource.ParseRate(l.Rate); err == nil && rate > 0 {
		burst = command.Number(l.Burst)
	}
	rate := l.Rate + blocks(resource.Blocks(l.Rate))
	if l.Concurrency > 0 {
		rate = fmt.Sprintf("%d in flight", l.Concurrency)
	}
	if l.Quota != nil {
		rate = resource.QuotaText(l.Quota)
	}
	return []string{l.Name, rate, burst, cmp.Or(l.Identity, l.Key.String()),
		orAll(l.Classes), modeOf(l.Mode.String(), l), inForce(l.Status)}
}

func overrideRow(o *quotav1.Override) []string {
	burst, rate := command.None, o.Rate+blocks(resource.Blocks(o.Rate))
	switch {
	case o.Concurrency > 0:
		rate = fmt.Sprintf("%d in flight", o.Concurrency)
	case o.Amount > 0:
		rate = command.Number(o.Amount) + " per period"
	case !resource.Blocks(o.Rate):
		burst = command.Number(o.Burst)
	}
	until := command.None
	if o.Until != nil {
		until = strings.TrimPrefix(strings.TrimSpace(modeOf("", o)), "until ")
	}
	return []string{o.Name, rate, burst, until, inForce(o.Status)}
}

// modeOf is the mode of a quota or a limit, and how long it holds.
func modeOf(mode string, of resource.Timed) string {
	if resource.IsOver(of, time.Now()) {
		mode += " (lapsed)"
	} else if of.GetUntil() != nil {
		mode += " until " + resource.Moment(of.GetUntil())
	}
	return mode
}

func limitMore(l *quotav1.Limit) []string {
	precision := quotav1.Precision_LOCAL.String()
	if l.Precision == quotav1.Precision_EXACT {
		precision = l.Precision.String()
	}
	if p := l.GetStatus().GetPrecision(); p != quotav1.Precision_PRECISION_UNSPECIFIED {
		precision = p.String()
	}
	if l.Strict {
		precision += " (strict)"
	}
	if why := l.GetStatus().GetPrecisionWhy(); why != "" {
		precision += ": " + why
	}
	return []string{cmp.Or(l.Cost, command.None), orAll(l.Pools), strconv.Itoa(len(l.Overrides)),
		l.Queue.GetAqm().String(), precision}
}

// orAll lists names; none means that all are meant.
func orAll(names []string) string { return cmp.Or(strings.Join(names, ","), "all") }

// blocks marks a 0 that refuses everything.
func blocks(yes bool) string {
	if yes {
		return " (blocked)"
	}
	return ""
}

// writeTables writes a table for each kind, an empty line between two.
func writeTables(w io.Writer, ms []resource.Message, wide bool) error {
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
		if err := tableOf(kind, ofKind, wide).Write(w); err != nil {
			return err
		}
	}
	return writeLegend(w, ms)
}

// writeLegend explains the words in the tables that are the coordinator's.
func writeLegend(w io.Writer, ms []resource.Message) error {
	var full, slack, bound bool
	for _, m := range ms {
		switch m := m.(type) {
		case *quotav1.Pool:
			full = full || m.GetStatus().GetFairRate() > 0
			slack = slack || poolState(m.GetStatus()) == "SLACK"
		case *quotav1.Quota:
			bound = bound || m.GetStatus().GetBoundBy() != quotav1.Bound_BOUND_UNSPECIFIED
		}
	}
	var lines []string
	if full {
		lines = append(lines, "FULL: tenants ask for more than the capacity, and each is held to its share. "+
			"FAIR: the share of weight 1.", "PRICE: how scarce the pool is, to be compared with itself at other times.")
	}
	if slack {
		lines = append(lines, "SLACK: the capacity is not used up, and every tenant gets what it asks for; PRICE is 0.")
	}
	if bound {
		lines = append(lines, "BOUND BY: what holds a share. DEMAND: all that the tenant asks for; GUARANTEED: its "+
			"guarantee;", "  MAX: the max of its quota; POOL: its fair share of a full pool.")
	}
	if len(lines) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(lines, "\n"))
	return err
}
