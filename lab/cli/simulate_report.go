package cli

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/titrate/titrate/lab/simulate"
	"github.com/titrate/titrate/lab/simulate/measure"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/wording"
)

// simulationTable lays out a result: a line for each pool, flow, limit and event,
// the systems below each other so that they can be compared.
type simulationTable struct {
	r *simulate.Result
	b strings.Builder
}

// mostKeys is the number of clients of a limit that have a line each.
const mostKeys = 6

func writeSimulation(w io.Writer, r *simulate.Result) error {
	t := &simulationTable{r: r}
	t.headline()
	t.pools()
	t.flows()
	t.limits()
	t.inFlight()
	t.quotas()
	t.settling()
	t.legend()
	_, err := io.WriteString(w, t.b.String())
	return err
}

func (t *simulationTable) headline() {
	if t.r.Name != "" {
		fmt.Fprintf(&t.b, "%s\n", t.r.Name)
	}
	fmt.Fprintf(&t.b, "%s on %s; means leave out the first %s; seed %d\n", seconds(t.r.DurationSeconds),
		plural(len(t.r.Gateways), "gateway"), seconds(t.r.WarmupSeconds), t.r.Seed)
	for i := range t.r.Systems {
		s := &t.r.Systems[i]
		q := s.Requests
		fmt.Fprintf(&t.b, "%s: %s, %d admitted", s.Name, plural(q.Offered, "request"), q.Admitted)
		for _, part := range []struct {
			n    int
			what string
		}{{q.Marked, "of them marked"}, {q.Rejected, "rejected"}, {q.Abandoned, "given up by the client"},
			{q.Lost, "lost with their gateway"}, {q.Waiting, "still waiting"}} {
			if part.n > 0 {
				fmt.Fprintf(&t.b, ", %d %s", part.n, part.what)
			}
		}
		if s.Waits.MaxMs > 0 {
			fmt.Fprintf(&t.b, "; wait p50 %s, p99 %s, longest %s", ms(s.Waits.P50Ms), ms(s.Waits.P99Ms),
				ms(s.Waits.MaxMs))
		}
		t.b.WriteString("\n")
		if g := s.Gossip; g != nil && len(t.r.Gateways) > 1 {
			fmt.Fprintf(&t.b, "gossip of an agent: %s packets/s, %s bytes/s, %s records/s; of the busiest %s, %s, %s\n",
				command.Number(g.Packets.Mean), command.Number(g.Bytes.Mean), command.Number(g.Records.Mean),
				command.Number(g.Packets.Most),
				command.Number(g.Bytes.Most), command.Number(g.Records.Most))
		}
	}
}

// section writes a table with a line for each of count things and each system; row
// says whether there is one. The system's column is there if there are several.
func (t *simulationTable) section(columns []command.Column, count int, row func(s *measure.System, i int) ([]string,
	bool)) {
	several := len(t.r.Systems) > 1
	if several {
		columns = slices.Insert(slices.Clone(columns), 1, command.Column{Title: "SYSTEM"})
	}
	out := &command.Table{Columns: columns}
	for i := range count {
		for k := range t.r.Systems {
			cells, ok := row(&t.r.Systems[k], i)
			if !ok {
				continue
			}
			if several {
				cells = slices.Insert(cells, 1, t.r.Systems[k].Name)
			}
			out.Add(cells...)
		}
	}
	if len(out.Rows) > 0 {
		t.b.WriteString("\n")
		_ = out.Write(&t.b) // a Builder takes everything
	}
}

func (t *simulationTable) pools() {
	columns := command.Columns("POOL", "#CAPACITY", "#WANTED", "#ADMITTED",
		"#USE WHEN FULL", "#HIGHEST SECOND", "#WORST EXCESS")
	t.section(columns, len(t.r.Systems[0].Pools), func(s *measure.System, i int) ([]string, bool) {
		p := &s.Pools[i]
		use := command.None
		if p.WantedSeconds > 0 {
			use = percent(p.WantedUse)
		}
		return []string{p.Pool, command.PerSecond(p.Capacity), command.PerSecond(p.Demand),
			command.PerSecond(p.Admitted), use,
			command.Number(p.HighestSecond), command.Number(p.WorstExcess)}, true
	})
}

func (t *simulationTable) flows() {
	columns := command.Columns("TENANT", "POOL", "#WEIGHT", "#WANTED", "#FAIR",
		"#SERVED", "#WORST OFF", "#WRONGFUL", "#WAIT P99")
	t.section(columns, len(t.r.Systems[0].Flows), func(s *measure.System, i int) ([]string, bool) {
		f := &s.Flows[i]
		off := command.None
		if f.SaturatedSeconds > 0 {
			off = percent(f.WorstDeviation)
		}
		return []string{f.Tenant, f.Pool, command.Number(f.Weight), command.PerSecond(f.Demand),
			command.PerSecond(f.Entitlement),
			command.PerSecond(f.Served), off, strconv.Itoa(f.Wrongful), ms(f.Waits.P99Ms)}, f.Pool != ""
	})
}

// group has the keys for the lines of one limit.
type group struct {
	name string
	keys []int
}

// groups are the limits of a result, and which keys they have.
func (t *simulationTable) groups() (groups []group) {
	for i := range t.r.Systems[0].Keys {
		k := &t.r.Systems[0].Keys[i]
		name := k.Tenant + "/" + k.Limit
		at := slices.IndexFunc(groups, func(g group) bool { return g.name == name })
		if at < 0 {
			at = len(groups)
			groups = append(groups, group{name: name})
		}
		groups[at].keys = append(groups[at].keys, i)
	}
	var out []group
	for _, g := range groups {
		if len(g.keys) > mostKeys {
			out = append(out, g)
			continue
		}
		for _, k := range g.keys {
			out = append(out, group{g.name, []int{k}})
		}
	}
	return out
}

func (t *simulationTable) limits() {
	columns := command.Columns("LIMIT", "OF", "#RATE", "#BURST", "#OFFERED",
		"#ADMITTED", "#CENTRAL", "#WORST EXCESS", "#WRONGFUL", "#ABOVE THE RATE")
	groups := t.groups()
	t.section(columns, len(groups), func(s *measure.System, i int) ([]string, bool) {
		k := together(s, groups[i].keys)
		of := cmp.Or(k.Client, "all clients")
		if n := len(groups[i].keys); n > 1 {
			of = wording.Count(n, "client")
		}
		mean := command.None
		if k.AboveSeconds > 0 && k.Rate > 0 {
			mean = percent(k.AboveMean / k.AboveCentral)
		}
		wrongful := strconv.Itoa(k.Wrongful)
		if k.Wrongful > 0 {
			wrongful += fmt.Sprintf(" of %d", k.Within)
		}
		return []string{groups[i].name, of, command.PerSecond(k.Rate), command.Number(k.Burst), strconv.Itoa(k.Offered),
			strconv.Itoa(k.Admitted), strconv.Itoa(k.Central), excess(k.WorstExcess), wrongful, mean}, true
	})
}

// inFlight is the table of the keys of concurrency limits.
func (t *simulationTable) inFlight() {
	columns := command.Columns("LIMIT", "OF", "#IN FLIGHT", "#OFFERED", "#ADMITTED", "#REFUSED", "#WRONGLY",
		"#MOST AT ONCE", "#MEAN")
	t.section(columns, len(t.r.Systems[0].InFlight), func(s *measure.System, i int) ([]string, bool) {
		k := &s.InFlight[i]
		return []string{k.Tenant + "/" + k.Limit, cmp.Or(k.Client, "all clients"), strconv.FormatInt(k.Concurrency, 10),
			strconv.Itoa(k.Offered), strconv.Itoa(k.Admitted), strconv.Itoa(k.Refused), strconv.Itoa(k.Wrongly),
			strconv.Itoa(k.Most), strconv.FormatFloat(k.Mean, 'f', 1, 64)}, true
	})
}

// quotas is the table of the keys of calendar quotas.
func (t *simulationTable) quotas() {
	columns := command.Columns("LIMIT", "OF", "#AMOUNT", "#WANTED", "#ADMITTED", "#REFUSED", "#FIRST REFUSED AT")
	t.section(columns, len(t.r.Systems[0].Quotas), func(s *measure.System, i int) ([]string, bool) {
		q := &s.Quotas[i]
		at := command.None
		if q.UsedUpSeconds != nil {
			at = seconds(math.Round(10**q.UsedUpSeconds) / 10)
		}
		return []string{q.Tenant + "/" + q.Limit, cmp.Or(q.Client, "all clients"), command.Number(q.Amount),
			command.Number(q.Wanted), command.Number(q.Admitted), command.Number(q.Refused), at}, true
	})
}

// together adds the keys of a limit up; of rate, burst and excess it has the
// largest.
func together(s *measure.System, keys []int) measure.Key {
	sum := s.Keys[keys[0]]
	for _, i := range keys[1:] {
		k := &s.Keys[i]
		sum.Offered += k.Offered
		sum.Admitted += k.Admitted
		sum.Central += k.Central
		sum.Within += k.Within
		sum.Wrongful += k.Wrongful
		sum.AboveSeconds += k.AboveSeconds
		sum.AboveMean += k.AboveMean
		sum.AboveCentral += k.AboveCentral
		sum.Rate, sum.Burst = max(sum.Rate, k.Rate), max(sum.Burst, k.Burst)
		sum.WorstExcess = max(sum.WorstExcess, k.WorstExcess)
	}
	return sum
}

func (t *simulationTable) settling() {
	columns := command.Columns("EVENT", "#AT", "#SETTLED AFTER", "LAST TO SETTLE")
	t.section(columns, len(t.r.Systems[0].Settling), func(s *measure.System, i int) ([]string, bool) {
		e := &s.Settling[i]
		after := "not before the next"
		if e.Seconds != nil {
			after = seconds(*e.Seconds)
		}
		return []string{e.What, seconds(e.AtSeconds), after, cmp.Or(e.By, command.None)}, true
	})
}

// legend explains the columns that need it.
func (t *simulationTable) legend() {
	lines := []string{""}
	first := &t.r.Systems[0]
	if len(first.Pools) > 0 {
		lines = append(lines, "USE WHEN FULL: admitted of the capacity while more was wanted. WORST OFF: "+
			"|served/fair - 1| of a tenant that wants more than its fair share.")
	}
	if len(first.Keys) > 0 {
		lines = append(lines, "CENTRAL: what one exact bucket for all gateways would have admitted. WORST EXCESS: "+
			"over rate·t + burst, in any window.",
			"WRONGFUL: refused though the client kept within rate and burst. ABOVE THE RATE: admitted of what "+
				"CENTRAL admits, while more was wanted.")
	}
	if len(first.InFlight) > 0 {
		lines = append(lines, "WRONGLY: refused by the limit while fewer were in flight than it allows. "+
			"MEAN: in flight, after the warm-up.")
	}
	if len(lines) > 1 {
		t.b.WriteString(strings.Join(lines, "\n") + "\n")
	}
}

func percent(v float64) string { return strconv.FormatFloat(100*v, 'f', 1, 64) + " %" }
func ms(v float64) string      { return strconv.FormatFloat(v, 'f', 0, 64) + " ms" }

func seconds(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) + " s" }

// excess writes by how much a limit was exceeded; room left is none.
func excess(v float64) string {
	if v <= 0 {
		return "0"
	}
	return "+" + command.Number(v)
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}
