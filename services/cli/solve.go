package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/titrate/titrate/services/solve"
)

const solveLong = `solve is a calculator for what-if questions: it works out who would get how much of
which pool, by the laws that the coordinator runs. It needs no server.

A problem lists pools with a capacity, and tenants with what they want and what a
unit of it costs in each pool:

  sharing: MAX_MIN            # weighted max-min, or PROPORTIONAL (alpha-fair)
  alpha: 1                    # of PROPORTIONAL: 0.1 (the total counts) to 10 (nearly max-min)
  guarantee: MINIMUM          # a floor, max(m, w·f); or ADDITIVE, a base, m + w·f
  pools:
    - {name: api, capacity: 300}
    - {name: db, capacity: 200}
  tenants:
    - {name: acme, weight: 2, guaranteed: 50, uses: {api: 1, db: 2}}
    - {name: globex, demand: 60, uses: {api: 1}}
    - {name: batch, max: 250, uses: {api: 1}}

Only pools and tenants must be there. No max or demand: unbounded. No cost: the pool
is not used. No weight: 1; weight 0 has its guarantee and nothing more.

The answer: acme gets 100 (held by db), globex 60 (DEMAND: all it asks for), batch
140 (held by api). A pool's fair rate is what a tenant of weight 1 and cost 1 would
get there; it is absent (null) where the pool does not bind. Its price is how scarce
it is: 0 where it does not bind, absent where guarantees fill it and nothing is left.
Guarantees that do not fit are scaled down and flagged INFEASIBLE_GUARANTEES.

Exit status: 0 solved (infeasible guarantees too), 1 failed, 2 wrong usage or a
mistake in the problem, shown with file, line and field.`

const solveExample = `  titrate solve -f lab/examples/solve-1-equal.yaml
  titrate solve -f problem.yaml -o json | jq '.tenants[] | {name, share}'
  generate-problem | titrate solve -f -`

// newSolve is the what-if calculator.
func newSolve() *cobra.Command {
	var (
		output format
		file   string
	)
	cmd := &cobra.Command{
		Use:     "solve -f FILE|-",
		Short:   "Work out who would get how much, and what holds whom (no server needed)",
		Long:    solveLong,
		Example: solveExample,
		Args:    filesByFlag,
		RunE: func(cmd *cobra.Command, _ []string) error {
			problem, err := readProblem(cmd.InOrStdin(), file)
			if err != nil {
				return usage(err)
			}
			result, err := problem.Solve()
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			return writeResult(cmd.OutOrStdout(), output, problem, result)
		},
	}
	output.flag(cmd)
	cmd.Flags().StringVarP(&file, "file", "f", "", "problem in YAML or JSON, - for standard input")
	_ = cmd.MarkFlagFilename("file", "yaml", "yml", "json")
	_ = cmd.MarkFlagRequired("file")
	return cmd
}

func readProblem(stdin io.Reader, path string) (*solve.Problem, error) {
	if path == "-" {
		return solve.Parse("<stdin>", stdin)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return solve.Parse(path, f)
}

func writeResult(w io.Writer, as format, p *solve.Problem, r *solve.Result) error {
	switch as {
	case asJSON:
		return r.WriteJSON(w)
	case asYAML:
		return r.WriteYAML(w)
	}
	f, ok := w.(*os.File)
	return r.WriteTable(w, p, ok && term.IsTerminal(int(f.Fd())))
}
