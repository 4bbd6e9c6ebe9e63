package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/titrate/titrate/papers"
	"github.com/titrate/titrate/papers/experiment"
	"github.com/titrate/titrate/services/command"
)

const labLong = `lab runs the figures and tables of the five papers that Titrate's laws come from, by the
packages that run in production or, for what is only reproduced, by those of papers/.

  titrate-lab lab list              what there is, and what cannot be computed and why
  titrate-lab lab run NAME...       compute, compare with the paper, draw

docs/reproduction.md has the findings of all.`

// newLab runs the papers' experiments.
func newLab() *cobra.Command {
	cmd := &cobra.Command{Use: "lab", Short: "Reproduce a figure or a table of the papers (no server needed)",
		Long: labLong, Args: command.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(newLabList(), newLabRun())
	return cmd
}

func newLabList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the figures and tables", Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t := command.NewTable("NAME", "FIGURE", "WHAT IT SHOWS")
			for _, p := range papers.All() {
				for _, e := range p.Experiments {
					if e.Run == nil {
						t.Add("–", e.Figure, e.Title+": not computed: "+e.Cannot)
						continue
					}
					t.Add(e.Name, e.Figure, e.Title)
				}
			}
			return t.Write(cmd.OutOrStdout())
		},
	}
}

func newLabRun() *cobra.Command {
	var dir, output string
	var short bool
	cmd := &cobra.Command{
		Use:   "run NAME...",
		Short: "Compute a figure or table, compare it with the paper and draw it",
		Long: `run computes figures and tables, prints what the paper says beside what came out, and
with --out writes each chart as NAME.svg, NAME.png and NAME.csv.

Exit status: 0 computed, whatever the verdict; 1 failed; 2 wrong usage or no such name.`,
		Example: `  titrate-lab lab run chem-fig8 --out figures
  titrate-lab lab run chem-fig8 chem-fig10 -o json | jq '.[].findings[] | select(.verdict == "differs")'`,
		Args: func(cmd *cobra.Command, args []string) error { return command.Usage(cobra.MinimumNArgs(1)(cmd, args)) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return papers.Names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != string(command.AsTable) && output != string(command.AsJSON) {
				return command.Usage(fmt.Errorf("--output is %q, must be table or json", output))
			}
			return runLab(cmd, args, dir, output, short)
		},
	}
	cmd.Flags().StringVar(&dir, "out", "", "write the charts to this `directory`; empty: no charts")
	cmd.Flags().StringVarP(&output, "output", "o", string(command.AsTable), "format of the findings, table or json")
	cmd.Flags().BoolVar(&short, "short", false, "a short version, of a second or so")
	return cmd
}

// labResult is one experiment in JSON.
type labResult struct {
	Name     string                `json:"name"`
	Figure   string                `json:"figure"`
	Title    string                `json:"title"`
	Findings []*experiment.Finding `json:"findings"`
	Charts   []string              `json:"charts,omitempty"`
}

func runLab(cmd *cobra.Command, names []string, dir, output string, short bool) error {
	var todo []experiment.Experiment
	for _, name := range names {
		e, ok := papers.Find(name)
		if !ok || e.Run == nil {
			return command.Usage(fmt.Errorf("no experiment %q%s; titrate-lab lab list has them", name, near(name)))
		}
		todo = append(todo, e)
	}
	var results []labResult
	out := cmd.OutOrStdout()
	for _, e := range todo {
		r := e.Run(short)
		l := labResult{Name: e.Name, Figure: e.Figure, Title: e.Title, Findings: r.Findings}
		if dir != "" {
			if err := r.Save(dir); err != nil {
				return fmt.Errorf("charts of %s: %w", e.Name, err)
			}
			for _, c := range r.Charts {
				l.Charts = append(l.Charts, c.Name+".svg")
			}
		}
		results = append(results, l)
		if output == string(command.AsTable) {
			fmt.Fprintf(out, "%s, %s: %s\n\n", e.Name, e.Figure, e.Title)
			r.Print(out)
			if len(l.Charts) > 0 {
				fmt.Fprintf(out, "\nCharts in %s%c: %s\n", strings.TrimSuffix(dir, "/"), os.PathSeparator,
					strings.Join(l.Charts, ", "))
			}
			fmt.Fprintln(out)
		}
	}
	if output == string(command.AsJSON) {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(results)
	}
	return nil
}

// near suggests names that begin alike.
func near(name string) string {
	stem, _, _ := strings.Cut(name, "-")
	var alike []string
	for _, n := range papers.Names() {
		if strings.HasPrefix(n, stem) {
			alike = append(alike, n)
		}
	}
	if len(alike) == 0 {
		return ""
	}
	return "; there are " + strings.Join(alike, ", ")
}
