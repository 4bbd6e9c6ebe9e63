package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/titrate/titrate/lab/solve"
	"github.com/titrate/titrate/services/command"
)

const solveLong = `solve is a calculator for what-if questions: it works out who would get how much of
which pool, by the laws that the coordinator runs. It needs no server.

It reads the pools, tenants and quotas that titrate apply takes, and what is asked of
them: one document of the kind Demand, in one of the files or in one of its own.

  - {apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/api, spec: {capacity: 300}}
  - {apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/db, spec: {capacity: 200}}
  - {apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/acme, spec: {weight: 2}}
  - {apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/globex}
  - {apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/batch}
  - {apiVersion: titrate.dev/v1alpha1, kind: Quota, name: tenants/batch/quotas/api, spec: {max: 250}}
  - apiVersion: titrate.dev/v1alpha1
    kind: Demand
    spec:
      flows:
        - {tenant: acme, uses: {api: 1, db: 2}}     # each unit takes 1 of api and 2 of db
        - {tenant: globex, pool: api, demand: 60}
        - {tenant: batch, pool: api}                # no demand: all that it can get

Without a Demand each tenant asks for all that it can get of each pool. A flow through
several pools has the smallest of the tenant's guarantees and maxima there.

The answer: acme gets 100 (held by db), globex 60 (DEMAND: all it asks for), batch
140 (held by api). A pool's fair rate is what a tenant of weight 1 and cost 1 would
get there; it is absent (null) where the pool does not bind. Its price is how scarce
it is: 0 where it does not bind, absent where guarantees fill it and nothing is left.
Guarantees that do not fit are scaled down and flagged INFEASIBLE_GUARANTEES.

Exit status: 0 solved (infeasible guarantees too), 1 failed, 2 wrong usage or a
mistake in a document, shown with file, line and field.`

const solveExample = `  titrate-lab solve -f lab/examples/solve-1-equal.yaml
  titrate get -o yaml | titrate-lab solve -f - -f demand.yaml -o json | jq '.tenants[] | {name, share}'`

// newSolve is the what-if calculator.
func newSolve() *cobra.Command {
	var (
		output command.Format
		files  []string
	)
	cmd := &cobra.Command{
		Use:     "solve -f FILE|DIR|-",
		Short:   "Work out who would get how much, and what holds whom (no server needed)",
		Long:    solveLong,
		Example: solveExample,
		Args:    command.FilesByFlag,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opened, left, err := command.OpenFiles(cmd.InOrStdin(), files)
			if err != nil {
				return command.Usage(err)
			}
			left.Documents().Note(cmd.ErrOrStderr())
			problems, err := solve.Parse(opened)
			if err != nil {
				return command.Usage(err)
			}
			results := make([]*solve.Result, len(problems))
			for i, p := range problems {
				if results[i], err = p.Solve(); err != nil {
					return err
				}
			}
			return writeResults(cmd.OutOrStdout(), output, problems, results)
		},
	}
	output.Flag(cmd)
	command.FileFlag(cmd, &files, "file or directory of documents, - for standard input; may be repeated")
	_ = cmd.MarkFlagRequired("file")
	return cmd
}

func writeResults(w io.Writer, as command.Format, problems []*solve.Problem, results []*solve.Result) error {
	switch as {
	case command.AsJSON:
		return solve.Together(results).WriteJSON(w)
	case command.AsYAML:
		return solve.Together(results).WriteYAML(w)
	}
	rich := command.Terminal(w)
	for i, r := range results {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if err := r.WriteTable(w, problems[i], rich); err != nil {
			return err
		}
	}
	return nil
}
