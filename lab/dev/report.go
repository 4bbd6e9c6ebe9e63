package dev

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/titrate/titrate/lab/dev/verdict"
	"github.com/titrate/titrate/services/wording"
)

// Report prints a verdict for people to out: the outcome and the machine's load in one line, then the checks that did
// not hold. If all is set, all checks and each phase. It writes the verdict as JSON to the file at path unless that
// is "", and returns the outcome.
func Report(out io.Writer, path string, v *verdict.Verdict, all bool) (Outcome, error) {
	if err := writeJSON(path, v); err != nil {
		return Failed, err
	}
	var broken []verdict.Check
	for _, c := range v.Checks {
		if !c.Pass {
			broken = append(broken, c)
		}
	}
	fmt.Fprintf(out, "\n%s\n", headline(v, len(broken)))
	if all {
		reportChecks(out, v.Checks)
		for _, p := range v.Phases {
			reportPhase(out, &p)
		}
	} else if len(broken) > 0 {
		reportChecks(out, broken)
	}
	switch {
	case v.Void:
		fmt.Fprintln(out, "\nThe run is void and says nothing about Titrate: the machine was too busy for the load. "+
			"Run it again with less other load on the machine. (Exit status 3; README.md, VOID.)")
		return Void, nil
	case v.Pass:
		return Passed, nil
	}
	return Failed, nil
}

// headline is the verdict in one line.
func headline(v *verdict.Verdict, broken int) string {
	l := &v.Load
	load := fmt.Sprintf("Load: %d of %s, %d dropped; late by %.1f ms at the start (p99, worst %.1f ms) and %.1f ms "+
		"on the way to the upstream (p99).", l.Recorded, wording.Count(l.Planned, "request"), l.Dropped, l.LateP99Ms,
		l.LateMaxMs, l.PathP99Ms)
	switch {
	case v.Void:
		return fmt.Sprintf("VOID: this machine could not keep up: %s. %s", strings.Join(v.VoidReasons, "; "), load)
	case v.Pass:
		return fmt.Sprintf("PASS: %s held. %s", wording.Count(len(v.Checks), "check"), load)
	}
	return fmt.Sprintf("FAIL: %d of %s did not hold. %s", broken, wording.Count(len(v.Checks), "check"), load)
}

func reportPhase(out io.Writer, p *verdict.Phase) {
	fmt.Fprintf(out, "\n%s, %.1f s to %.1f s", p.Name, p.Start, p.End)
	if p.MeasuredFrom > p.Start {
		fmt.Fprintf(out, " (means from %.1f s on: everything starts cold)", p.MeasuredFrom)
	}
	fmt.Fprintf(out, "\n  pool: %.1f/s admitted of %.0f/s capacity, %.1f/s offered; highest second %.0f; %d failed\n",
		p.Pool.Admitted, p.Pool.Capacity, p.Pool.Offered, p.Pool.MaxSliding1s, p.Failed)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\ttenant\tweight\toffered\tadmitted\tfair share\trejected\tmarked\twait p99\t")
	for _, x := range p.Tenants {
		if x.Offered == 0 { // it asks in another phase
			continue
		}
		fmt.Fprintf(t, "\t%s\t%g\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.0f ms\t\n",
			x.Name, x.Weight, x.Offered, x.Admitted, x.FairShare, x.Rejected, x.Marked, x.WaitP99Ms)
	}
	for _, c := range p.Clients {
		if c.Offered > 0 {
			fmt.Fprintf(t, "\t%s\t\t%.1f\t%.1f\t≤ %g\t\t\t\t\n", c.Name, c.Offered, c.Admitted, c.Rate)
		}
	}
	t.Flush()
}

// inWords are the checks in words.
var inWords = map[string]string{
	verdict.CheckPoolMean:    "pool: mean admitted/s",
	verdict.CheckPoolSliding: "pool: highest sliding second",
	verdict.CheckDeviation:   "saturated tenant: deviation from its fair share",
	verdict.CheckWait:        "saturated tenant: mean wait, ms",
	verdict.CheckEntitlement: "tenant: admitted over its entitlement",
	verdict.CheckExcess:      "limited client: most over rate·t + burst, requests",
	verdict.CheckRepaid:      "limited client: after a cut, excess that is not repaid in time, requests",
	verdict.CheckClientMean:  "limited client: long-run mean/s over its limit, at most",
	verdict.CheckClientLeast: "limited client: long-run mean/s over its limit, at least",
	verdict.CheckWrongful:    "limited client: wrongful 429s",
	verdict.CheckFailed:      "failed requests",
}

func reportChecks(out io.Writer, checks []verdict.Check) {
	fmt.Fprintln(out, "\nfigures and bounds:")
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range checks {
		mark, relation := "ok", "≤"
		if !c.Pass {
			mark = "BROKEN"
		}
		if c.AtLeast {
			relation = "≥"
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s %s\n", mark, c.Phase, inWords[c.Name], c.Subject, figure(c.Value),
			relation, figure(c.Bound))
	}
	t.Flush()
}

func figure(x float64) string {
	if x == float64(int64(x)) {
		return fmt.Sprintf("%d", int64(x))
	}
	return fmt.Sprintf("%.3f", x)
}

func writeJSON(path string, v *verdict.Verdict) error {
	if path == "" {
		return nil
	}
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
