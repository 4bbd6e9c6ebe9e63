package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/titrate/titrate/services/command"
)

const rootLong = `titrate-lab is the laboratory of Titrate, beside the program titrate: it runs all of
Titrate on this machine and judges it, plays scenarios on virtual time, and works out
shares. Nothing of it is needed in production.

See it first:              titrate-lab dev
Drive it yourself:         titrate-lab dev --no-load
Play a scenario:           titrate-lab simulate -f scenario.yaml
Who would get how much:    titrate-lab solve -f demand.yaml

Exit status: 0 done, 1 failed, 2 wrong usage, 3 void (dev).`

const (
	groupRun     = "run"
	groupCompute = "compute"
)

// Root returns the titrate-lab command with all its subcommands.
func Root() *cobra.Command {
	root := &cobra.Command{
		Use:   "titrate-lab",
		Short: "The laboratory of Titrate: demo, simulation and figures",
		Long:  rootLong,
	}
	root.AddGroup(&cobra.Group{ID: groupRun, Title: "Run on this machine:"},
		&cobra.Group{ID: groupCompute, Title: "Compute, without a server:"})
	command.Group(root, groupRun, newDev(), newEtcd(), newUpstream(), newLoad())
	command.Group(root, groupCompute, newSimulate(), newSolve(), newLab())
	command.Program(root, nil)
	return root
}

// Run runs the command line and returns its exit status. An error goes to stderr.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return command.Run(ctx, Root(), args, stdin, stdout, stderr)
}
