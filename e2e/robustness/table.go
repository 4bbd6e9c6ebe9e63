package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/titrate/titrate/e2e/robustness/fault"
)

// report writes what came of a run.
func (o *options) report(r *Result) {
	if o.output == "json" {
		return
	}
	w := os.Stdout
	if r.Error != "" {
		fmt.Fprintf(w, "\nseed %d: no verdict: %s\n", r.Seed, r.Error)
	} else {
		r.table(w)
	}
	if !r.Pass {
		fmt.Fprintf(w, "again:  %s\n", o.replay(r.Seed))
		if r.Logs != "" {
			fmt.Fprintf(w, "logs:   %s\n", r.Logs)
		}
	}
}

// replay is the command that runs a seed again.
func (o *options) replay(seed uint64) string {
	command := fmt.Sprintf("make robustness DURATION=%v SEED=%d", o.duration, seed)
	var args []string
	if o.faults != "" {
		args = append(args, "-faults "+o.faults)
	}
	if o.crowd != defaultCrowd {
		args = append(args, fmt.Sprintf("-clients %d", o.crowd))
	}
	if !o.world.Share {
		args = append(args, "-share-pools=false")
	}
	if o.world.Sites > 1 {
		args = append(args, fmt.Sprintf("-sites %d", o.world.Sites))
	}
	if args != nil {
		command += fmt.Sprintf(" ARGS='%s'", strings.Join(args, " "))
	}
	return command
}

func (r *Result) table(to io.Writer) {
	fmt.Fprintf(to, "\nseed %d: %d requests, %d admitted, %d refused, %d failed with an excuse; "+
		"%d of %d changes acknowledged, the slowest after %.1f s; %d faults; %.0f s quiet; "+
		"%.1f s the machine stood still; %.2f cores\n", r.Seed, r.Requests.Sent, r.Requests.Admitted,
		r.Requests.Refused,
		r.Requests.Excused, r.Changes.Acknowledged, r.Changes.Tried, r.Changes.Slowest.Seconds(),
		len(r.Faults), r.Quiet, r.Stalled, r.Cores)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "check\tof\tfigure\tbound\tunit\t")
	for _, c := range r.Checks {
		fmt.Fprintf(w, "%s\t%s\t%.2f\t%.2f\t%s\t%s\n", c.Name, c.Subject, c.Figure, c.Bound, c.Unit, word(c.Pass))
	}
	w.Flush()
	for _, f := range r.Findings {
		fmt.Fprintf(to, "%7.1f s  %s: %s\n", f.At.Seconds(), f.Check, f.What)
	}
	fmt.Fprintln(to, r.word())
	if r.Void != "" {
		fmt.Fprintln(to, r.Void)
	}
}

// word is the verdict.
func (r *Result) word() string {
	if r.Void != "" {
		return "VOID"
	}
	return word(r.Pass && r.Error == "")
}

func word(pass bool) string {
	if pass {
		return "PASS"
	}
	return "FAIL"
}

// verdict writes the list of many runs and is an error unless all have passed.
func (o *options) verdict(ctx context.Context, results []*Result) error {
	if o.output == "json" {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		if err := e.Encode(results); err != nil {
			return err
		}
	} else if len(results) > 1 {
		fmt.Fprintln(os.Stdout)
		for _, r := range results {
			if r != nil {
				fmt.Fprintf(os.Stdout, "seed %-4d %s %s\n", r.Seed, r.word(), r.why())
			}
		}
	}
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	failed, void := 0, 0
	for _, r := range results {
		switch {
		case r != nil && r.Void != "" && r.Error == "":
			void++
		case r == nil || !r.Pass || r.Error != "":
			failed++
		}
	}
	switch {
	case failed > 0:
		return fmt.Errorf("FAIL: %d of %d, and %d void", failed, len(results), void)
	case void > 0:
		return voidError(fmt.Sprintf("VOID: %d of %d", void, len(results)))
	}
	return nil
}

// voidError says how many runs were void while none failed.
type voidError string

func (v voidError) Error() string { return string(v) }

// why names the checks that failed, or says why the run is void.
func (r *Result) why() string {
	if r.Void != "" {
		return r.Void
	}
	if r.Error != "" {
		return r.Error
	}
	var failed []string
	for _, c := range r.Checks {
		if !c.Pass {
			failed = append(failed, strings.TrimSpace(c.Name+" "+c.Subject))
		}
	}
	return strings.Join(failed, ", ")
}

func listKinds(to io.Writer) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\twhat it does\tlasts, s\tgrace after it, s\tbesides")
	for _, row := range kindRows() {
		fmt.Fprintln(w, strings.Join(row[:], "\t"))
	}
	w.Flush()
}

// kindRows are the kinds of faults: name, what it does, how long it lasts, grace,
// what it excuses besides.
func kindRows() (rows [][5]string) {
	for _, k := range slices.Concat(fault.Kinds, fault.OfSites) {
		var besides []string
		for _, b := range []struct {
			is   bool
			what string
		}{
			{k.Grace.Fails, "requests under way there may fail"}, {k.Grace.Blocks, "and wait until it is over"},
			{k.Grace.Fair, "entitlements hold all the time"},
			{k.Grace.More > 0, fmt.Sprintf("%.0f %% more may be admitted", 100*k.Grace.More)},
			{k.Grace.Freezes, fmt.Sprintf("%.0f %% more of the pool: shares may be frozen",
				100*pool.Frozen()/pool.Capacity)},
			{k.Grace.Bursts > 0, fmt.Sprintf("%.0f burst more, once", k.Grace.Bursts)},
			{k.Grace.Ledgers, "ledgers may decide for EXACT limits"},
			{k.Grace.Spares, "clients that it does not name are not refused below their limit"},
			{k.Grace.Sides, "two sides may hold an EXACT limit each"},
			{k.Grace.Delay > 0, fmt.Sprintf("the gossip may take %v longer", k.Grace.Delay)},
		} {
			if b.is {
				besides = append(besides, b.what)
			}
		}
		lasts := fmt.Sprintf("%.0f to %.0f", k.Shortest.Seconds(), k.Longest.Seconds())
		if k.Longest == 0 {
			lasts = "–"
		}
		grace := fmt.Sprintf("%.0f", k.Grace.Unfair.Seconds())
		rows = append(rows, [5]string{k.Name, k.Does, lasts, grace, strings.Join(besides, "; ")})
	}
	return rows
}
