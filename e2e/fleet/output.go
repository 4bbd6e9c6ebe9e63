package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/titrate/titrate/lab/simulate/measure"
	"github.com/titrate/titrate/papers/experiment"
	"github.com/titrate/titrate/papers/markdown"
)

// write writes results as they were asked for.
func write(to io.Writer, o options, all []*Result) error {
	switch {
	case len(all) == 0:
		return nil
	case o.output == "csv":
		return writeCSV(to, all)
	case o.output == "json":
		e := json.NewEncoder(to)
		e.SetIndent("", "  ")
		if !o.sweeps() {
			return e.Encode(all[0])
		}
		return e.Encode(all)
	}
	if o.sweeps() {
		fmt.Fprintf(to, "\n%s", sweepTable(all).Aligned())
	}
	for _, r := range all {
		if !o.sweeps() {
			fmt.Fprintf(to, "\n%s", r.phaseTable().Aligned())
			if r.Sites > 1 {
				fmt.Fprintf(to, "\n%s", r.clientTable().Aligned())
			}
			fmt.Fprintf(to, "\n%s", r.useTable().Aligned())
			fmt.Fprintf(to, "\n%s", r.machineTable().Aligned())
		}
		if !o.sweeps() || !r.Pass {
			fmt.Fprintf(to, "\n%s", r.checkTable().Aligned())
		}
	}
	for _, r := range all {
		if r.Void != "" {
			fmt.Fprintf(to, "\nVOID: %s\n", r.Void)
		}
	}
	fmt.Fprintf(to, "\n%s\n", result(all))
	return nil
}

// result is the verdict in a word.
func result(all []*Result) string {
	switch err := verdict(all); {
	case err == nil:
		return "PASS"
	case errors.Is(err, errVoid):
		return "VOID"
	}
	return "FAIL"
}

func word(pass bool) string {
	if pass {
		return "PASS"
	}
	return "FAIL"
}

// what describes the run.
func (r *Result) what() string {
	if r.Sites > 1 {
		return fmt.Sprintf("%d agents in %d sites, %d keys at all sites, each at %g/s", r.Agents, r.Sites, r.Keys,
			r.Rate)
	}
	if r.Exact {
		return fmt.Sprintf("%d agents, %d keys of EXACT limits at the gateway of each", r.Agents, r.Keys)
	}
	users := "all"
	if r.Users > 0 {
		users = strconv.Itoa(r.Users)
	}
	return fmt.Sprintf("%d agents, %d of them with an Envoy; %d keys, each used by %s synthetic gateways at %g/s",
		r.Agents, r.Envoys, r.Keys, users, r.Rate)
}

func (r *Result) phaseTable() *markdown.Section {
	switch {
	case r.Sites > 1:
		return r.siteTable()
	case r.Exact:
		return r.exactTable()
	}
	t := &markdown.Section{Title: r.what(), Head: []string{"phase", "agents at its end", "s", "sums right after, s",
		"members known after, s", "late, s", "links that came back", "δ of counts, s", "counts off, requests",
		"counts that could not stand still, %", "shares off, %"}}
	for i := range r.Phases {
		p := &r.Phases[i]
		t.Add(p.Name, p.Agents, short(p.Seconds), short(p.Claims), short(p.Members), short(p.Late),
			p.Reconnects, short(p.CountLag), short(p.CountOff), short(100*p.CountsSeen), short(100*p.ShareOff))
	}
	t.Notes = []string{fmt.Sprintf("All sums were right %.1f s after the start; the whole took %.0f s. %d links of "+
		"synthetic gateways ended by themselves and came back.", r.Start, r.Seconds, r.Reconnects)}
	if x := r.Traffic; x != nil {
		t.Notes = append(t.Notes, fmt.Sprintf("Through the Envoys: %d requests, %d failed; the client above its limit "+
			"got %.1f %% of what the limit allows, at most %.1f requests over rate·t + burst (%.0f are allowed); of "+
			"the client below its limit %d were refused wrongly.", x.Sent, x.Failed, 100*x.Mean, x.Excess, x.Slack,
			x.Below))
	}
	return t
}

// machineTable returns the processor use of the machine.
func (r *Result) machineTable() *markdown.Section {
	t := &markdown.Section{Title: "The machine, cores", Head: []string{"phase", "agents", "coordinator",
		"synthetic gateways and clients", "all processes"}}
	for i := range r.Phases {
		p := &r.Phases[i]
		t.Add(p.Name, short(p.Use.CPU.Mean*float64(p.Agents)), short(p.Coordinator), short(p.Harness), short(p.Busy))
	}
	return t
}

func (r *Result) useTable() *markdown.Section {
	t := &markdown.Section{Title: "Per agent: mean, and in brackets the most of one", Head: []string{"phase", "cores",
		"gossip out, B/s", "gossip in, B/s", "packets out/s", "records out/s", "link, B/s", "memory, MiB"}}
	for i := range r.Phases {
		u := &r.Phases[i].Use
		if u.CPU.Most == 0 {
			continue // no agent has run from its beginning to its end
		}
		t.Add(r.Phases[i].Name, u.CPU, u.BytesOut, u.BytesIn, u.PacketsOut, u.RecordsOut, u.Link,
			Figure{u.Memory.Mean / (1 << 20), u.Memory.Most / (1 << 20)})
	}
	return t
}

func (r *Result) checkTable() *markdown.Section {
	t := &markdown.Section{Title: fmt.Sprintf("Checks, %d agents", r.Agents),
		Head: []string{"check", "phase", "figure", "at most", "unit", ""}}
	for _, c := range r.Checks {
		t.Add(c.Name, c.Phase, short(c.Figure), short(c.Most), c.Unit, word(c.Pass))
		if c.Why != "" {
			t.Notes = append(t.Notes, c.Name+", "+c.Phase+": "+c.Why)
		}
	}
	return t
}

// sweepHead are the columns of a sweep, for each run.
var sweepHead = []string{"agents", "keys", "cores per agent", "gossip out per agent, B/s",
	"packets out per agent, 1/s", "records out per agent, 1/s", "memory per agent, MiB", "coordinator, cores",
	"simulated: B/s", "simulated: packets/s", "simulated: records/s", "verdict"}

// sweepRow returns the cost of a steady fleet.
func (r *Result) sweepRow() []string {
	p := &r.Phases[0]
	u := &p.Use
	row := []string{strconv.Itoa(r.Agents), strconv.Itoa(r.Keys), short(u.CPU.Mean), short(u.BytesOut.Mean),
		short(u.PacketsOut.Mean),
		short(u.RecordsOut.Mean), short(u.Memory.Mean / (1 << 20)), short(p.Coordinator)}
	if s := r.Simulated; s != nil {
		row = append(row, short(s.Bytes.Mean), short(s.Packets.Mean), short(s.Records.Mean))
	} else {
		row = append(row, "–", "–", "–")
	}
	return append(row, word(r.Pass))
}

func sweepTable(all []*Result) *markdown.Section {
	t := &markdown.Section{Title: fmt.Sprintf(
		"A steady fleet; each key used by %d synthetic gateways (0: all) at %g/s",
		all[0].Users, all[0].Rate), Head: sweepHead}
	for _, r := range all {
		t.Rows = append(t.Rows, r.sweepRow())
	}
	return t
}

// writeCSV writes a row for each phase of each result.
func writeCSV(to io.Writer, all []*Result) error {
	rows := [][]string{{"agents", "keys", "users", "rate", "phase", "running", "seconds", "claims_seconds",
		"members_seconds", "cores_mean", "cores_most", "bytes_out_mean", "bytes_out_most", "bytes_in_mean",
		"packets_out_mean", "packets_in_mean", "records_out_mean", "link_bytes_mean", "memory_bytes_mean",
		"coordinator_cores", "token_messages_per_key", "links_lost", "decided_by_owners", "refused",
		"simulated_bytes_out", "simulated_packets_out", "simulated_records_out", "pass"}}
	for _, r := range all {
		for i := range r.Phases {
			p := &r.Phases[i]
			u := &p.Use
			row := []string{strconv.Itoa(r.Agents), strconv.Itoa(r.Keys), strconv.Itoa(r.Users), precise(r.Rate),
				p.Name, strconv.Itoa(p.Agents)}
			for _, v := range []float64{p.Seconds, p.Claims, p.Members, u.CPU.Mean, u.CPU.Most, u.BytesOut.Mean,
				u.BytesOut.Most, u.BytesIn.Mean, u.PacketsOut.Mean, u.PacketsIn.Mean, u.RecordsOut.Mean, u.Link.Mean,
				u.Memory.Mean, p.Coordinator} {
				row = append(row, precise(v))
			}
			if t := p.Tokens; t != nil {
				row = append(row, precise(t.PerKey), strconv.Itoa(t.Lost), precise(t.Decided), strconv.Itoa(t.Refused))
			} else {
				row = append(row, "", "", "", "")
			}
			if s := r.Simulated; s != nil {
				row = append(row, precise(s.Bytes.Mean), precise(s.Packets.Mean), precise(s.Records.Mean))
			} else {
				row = append(row, "", "", "")
			}
			rows = append(rows, append(row, strconv.FormatBool(r.Pass)))
		}
	}
	return csv.NewWriter(to).WriteAll(rows)
}

// draw draws the cost of an agent against the number of agents, or of keys.
func draw(o options, all []*Result) error {
	if err := os.MkdirAll(o.pictures, 0o755); err != nil {
		return err
	}
	x, against := "agents", func(r *Result) float64 { return float64(r.Agents) }
	if o.byKeys != nil {
		x, against = "keys", func(r *Result) float64 { return float64(r.Keys) }
	}
	var errs []error
	for _, c := range []struct {
		name, y string
		of      func(*Use) Figure
		played  func(*measure.Gossip) measure.Figure // nil: the simulation has none
	}{
		{"cores", "cores", func(u *Use) Figure { return u.CPU }, nil},
		{"bytes", "gossip out, B/s", func(u *Use) Figure { return u.BytesOut },
			func(g *measure.Gossip) measure.Figure { return g.Bytes }},
		{"packets", "gossip out, packets/s", func(u *Use) Figure { return u.PacketsOut },
			func(g *measure.Gossip) measure.Figure { return g.Packets }},
	} {
		chart := &experiment.Chart{Name: "fleet-" + c.name + "-by-" + x, Title: "A steady fleet, per agent", X: x,
			Y: c.y, LogX: true}
		mean, most := chart.Line("mean", experiment.Solid), chart.Line("most", experiment.Dots)
		for _, r := range all {
			f := c.of(&r.Phases[0].Use)
			mean.Add(against(r), f.Mean)
			most.Add(against(r), f.Most)
		}
		if c.played != nil && all[0].Simulated != nil {
			line := chart.Line("simulated, mean", experiment.FromPaper)
			for _, r := range all {
				line.Add(against(r), c.played(r.Simulated).Mean)
			}
		}
		errs = append(errs, chart.Save(o.pictures))
	}
	return errors.Join(errs...)
}

// String is the mean, and the most in brackets.
func (f Figure) String() string { return short(f.Mean) + " (" + short(f.Most) + ")" }

// short is a number of three digits or so.
func short(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v >= .1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// precise is a number of six digits.
func precise(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// amount is a number of bytes.
func amount(v float64) string {
	if v >= 1000 {
		return short(v/1000) + " kB"
	}
	return short(v) + " B"
}

// ready returns the condition before the first phase.
func (r *Result) ready() string {
	switch {
	case r.Sites > 1:
		return "all sites know all keys"
	case r.Exact:
		return "each client has asked once"
	}
	return "all sums are right"
}

// exactTable is phaseTable of EXACT keys.
func (r *Result) exactTable() *markdown.Section {
	t := &markdown.Section{Title: r.what(), Head: []string{"phase", "agents at its end", "s", "agents agree after, s",
		"token messages", "of each key, beyond steady", "links lost", "requests from 3 s on", "decided by owners, %",
		"requests refused", "keys owned, %", "clients late, s"}}
	for i := range r.Phases {
		p := &r.Phases[i]
		x := p.Tokens
		t.Add(p.Name, p.Agents, short(p.Seconds), short(x.Agreed), fmt.Sprintf("%.0f", x.Messages), short(x.PerKey),
			x.Lost, x.Requests, short(100*x.Decided), x.Refused, short(100*x.Owned), short(x.Late))
	}
	t.Notes = []string{fmt.Sprintf("Each client had asked once %.1f s after the start; the whole took %.0f s.", r.Start,
		r.Seconds)}
	return t
}
