package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/titrate/titrate/services/command"
)

const rootLong = `titrate limits rates inside Envoy: one limit holds over all gateways, and the
capacity of an upstream is shared fairly among tenants.

Configure it:            titrate plan -f quotas.yaml, titrate apply -f quotas.yaml
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

The demo, the simulation and the calculator are in the program titrate-lab.

Exit status: 0 done, 1 failed, 2 wrong usage.`

const (
	groupAPI = "api"
	groupRun = "run"
)

// laboratory has the commands of titrate-lab.
var laboratory = map[string]string{
	"dev": "titrate-lab dev", "etcd": "titrate-lab etcd", "lab": "titrate-lab lab", "load": "titrate-lab load",
	"simulate": "titrate-lab simulate", "solve": "titrate-lab solve", "upstream": "titrate-lab upstream",
}

// Root returns the titrate command with all its subcommands.
func Root() *cobra.Command {
	root := &cobra.Command{
		Use:   "titrate",
		Short: "Distributed rate limiting inside Envoy",
		Long:  rootLong,
	}
	root.AddGroup(&cobra.Group{ID: groupAPI, Title: "Configure and ask:"}, &cobra.Group{ID: groupRun, Title: "Run:"})
	command.Group(root, groupAPI, newGet(), newPlan(), newApply(), newDelete(), newBlock(), newUnblock(), newReset(),
		newWhy(), newTop(), newUsage(), newCheck(), newAuth(), newConfig(), newHistory(), newRollback(), newExport(),
		newRecover(), newBackup(), newImport())
	command.Group(root, groupRun,
		newCoordinator(),
		newAgent(),
		newOperator(),
		newSecrets(),
	)
	command.Program(root, laboratory)
	return root
}

// Run runs the command line and returns its exit status. An error goes to stderr.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return command.Run(ctx, Root(), args, stdin, stdout, stderr)
}
