// Package experiment has the shared parts of the papers' figures and tables: a runnable experiment, the
// findings that compare it with its paper, and the charts that it draws.
//
// An experiment belongs to one figure or table of one paper. It runs a simulation, or a calculation, with the
// laws of this module and of control/, and returns a [Result]: charts, and findings. A [Finding] is one
// quantity: the paper's value, the computed value, the allowed difference, and the verdict.
// docs/reproduction.md lists all findings; the program in papers/figures writes it.
//
// Experiments are deterministic: random numbers come from fixed seeds. An experiment that measures the machine
// it runs on has Measured set; its findings are kept in a file.
package experiment

import (
	"fmt"
	"math"
	"strconv"
)

// Experiment is one figure or table of a paper.
type Experiment struct {
	// Name is the argument of `titrate-lab lab run`, such as chem-fig8.
	Name string
	// Figure is the paper's name of the figure, such as Fig 8.
	Figure string
	// Title describes the figure in one line.
	Title string
	// Measured: the findings depend on the machine that it runs on.
	Measured bool
	// Run computes it. Short asks for a version of a second or so with the same shape.
	// Nil: the figure is a drawing, or cannot be computed; see Cannot.
	Run func(short bool) *Result
	// Cannot is the reason why a figure without Run is not computed.
	Cannot string
}

// Paper is a paper with its figures and tables, in the paper's order.
type Paper struct {
	Key         string // such as chem
	Citation    string
	Package     string // where its laws are
	Experiments []Experiment
}

// Verdict is the result of comparing a finding with the paper.
type Verdict string

// The verdicts.
const (
	Reproduced Verdict = "reproduced"
	Differs    Verdict = "differs"
	Cannot     Verdict = "cannot"
	// Ours is a finding without a figure in the paper.
	Ours Verdict = "–"
)

// Finding is one quantity of a figure.
type Finding struct {
	What      string  `json:"what"` // with its unit
	Paper     string  `json:"paper"`
	Here      string  `json:"here"`
	Tolerance string  `json:"tolerance"`
	Verdict   Verdict `json:"verdict"`
	// Why explains a difference, or another fact that a reader must know.
	Why string `json:"why,omitempty"`
}

// Result is the outcome of an experiment.
type Result struct {
	Charts   []*Chart
	Findings []*Finding
}

// Near compares a number with the paper's: they may be tolerance apart.
func (r *Result) Near(what string, paper, got, tolerance float64) *Finding {
	ok := math.Abs(got-paper) <= tolerance
	return r.add(what, Number(paper), Number(got), "± "+Number(tolerance), ok)
}

// Within compares a number with a range that the paper gives in words.
func (r *Result) Within(what, paper string, got, low, high float64) *Finding {
	bounds := fmt.Sprintf("%s to %s", Number(low), Number(high))
	switch {
	case math.IsInf(low, -1):
		bounds = "at most " + Number(high)
	case math.IsInf(high, 1):
		bounds = "at least " + Number(low)
	}
	return r.add(what, paper, Number(got), bounds, got >= low && got <= high)
}

// Holds compares a shape: the paper describes it in words, and ok reports whether the simulation has it.
func (r *Result) Holds(what, paper, got, rule string, ok bool) *Finding {
	return r.add(what, paper, got, rule, ok)
}

// Note records a quantity without a figure in the paper.
func (r *Result) Note(what, got string) *Finding {
	f := &Finding{What: what, Paper: "–", Here: got, Tolerance: "–", Verdict: Ours}
	r.Findings = append(r.Findings, f)
	return f
}

func (r *Result) add(what, paper, got, tolerance string, ok bool) *Finding {
	f := &Finding{What: what, Paper: paper, Here: got, Tolerance: tolerance, Verdict: Reproduced}
	if !ok {
		f.Verdict = Differs
	}
	r.Findings = append(r.Findings, f)
	return f
}

// Because adds a reason, or another fact that a reader must know.
func (f *Finding) Because(why string) *Finding {
	f.Why = why
	return f
}

// Verdict returns the verdict of the whole figure: Differs if one finding differs.
func (r *Result) Verdict() Verdict {
	v := Ours
	for _, f := range r.Findings {
		switch f.Verdict {
		case Differs:
			return Differs
		case Reproduced:
			v = Reproduced
		}
	}
	return v
}

// Chart adds a chart.
func (r *Result) Chart(name, title, x, y string) *Chart {
	c := &Chart{Name: name, Title: title, X: x, Y: y}
	r.Charts = append(r.Charts, c)
	return c
}

// Number is v with four significant digits, without an exponent where that is short.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case v == 0:
		return "0"
	case a >= 1e7 || a < 1e-4:
		return strconv.FormatFloat(v, 'g', 4, 64)
	case a >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	default:
		digits := 3 - int(math.Floor(math.Log10(a)))
		return trim(strconv.FormatFloat(v, 'f', digits, 64))
	}
}

// trim removes zeros behind the point.
func trim(s string) string {
	for i := len(s) - 1; i > 0; i-- {
		switch s[i] {
		case '0':
			continue
		case '.':
			return s[:i]
		}
		return s[:i+1]
	}
	return s
}
