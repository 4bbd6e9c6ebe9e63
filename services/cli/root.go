package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/titrate/titrate/services/command"
)

const rootLong = `titrate limits rates inside Envoy: one limit holds over all gateways, and the
capacity of an upstream is shared fairly among tenants.

See it first:            titrate dev
Then configure it:       titrate plan -f quotas.yaml, titrate apply -f quotas.yaml
Look at what happens:    titrate get
And ask for reasons:     titrate why acme
Who is limited now:      titrate top
Who changed what, undo:  titrate history, titrate rollback

What is configured:
  Pool     an upstream with a capacity          pools/api
  Tenant   a customer or team, with a weight    tenants/acme
  Quota    what a tenant may have of a pool     tenants/acme/quotas/api
  Limit    a rate for each client of a tenant   tenants/acme/limits/per-client
                                                (tenants/- is every tenant)

Exit status: 0 done, 1 failed, 2 wrong usage.`

const (
	groupAPI = "api"
	groupRun = "run"
)

// Root returns the titrate command with all its subcommands.
func Root() *cobra.Command {
	root := &cobra.Command{
		Use:   "titrate",
		Short: "Distributed rate limiting inside Envoy",
		Long:  rootLong,
	}
	root.AddGroup(&cobra.Group{ID: groupAPI, Title: "Configure and ask:"}, &cobra.Group{ID: groupRun, Title: "Run:"})
	in(root, groupAPI, newGet(), newPlan(), newApply(), newDelete(), newWhy(), newTop(), newCheck(), newAuth(),
		newConfig(), newHistory(), newRollback(), newExport(), newRecover(), newBackup(), newImport(), newSolve(),
		newSimulate(), newLab())
	in(root, groupRun,
		newDev(),
		newCoordinator(),
		newAgent(),
		newEtcd(),
		newUpstream(),
		newLoad(),
		newOperator(),
		newSecrets(),
	)
	command.Program(root, nil)
	return root
}

// in adds commands to a group of the help text.
func in(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
		root.AddCommand(c)
	}
}

// Run runs the command line and returns its exit status. An error goes to stderr.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return command.Run(ctx, Root(), args, stdin, stdout, stderr)
}
