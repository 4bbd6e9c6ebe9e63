package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/titrate/titrate/services/wording"
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
		Use:           "titrate",
		Short:         "Distributed rate limiting inside Envoy",
		Long:          rootLong,
		Version:       version(),
		Args:          cobra.ArbitraryArgs, // RunE words the error
		RunE:          runRoot,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return usage(cmd.ValidateRequiredFlags())
		},
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
	root.AddCommand(newVersion())
	root.SetVersionTemplate(versionLine()) // --version says what the command says
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if args := cmd.Flags().Args(); cmd == root && len(args) > 0 { // the flag is of a command that there is not
			return unknownCommand(cmd, args[0])
		}
		return usage(err)
	})
	for _, c := range root.Commands() {
		if check := c.Args; check != nil {
			c.Args = func(cmd *cobra.Command, args []string) error { return usage(check(cmd, args)) }
		}
	}
	return root
}

// addHelp adds the commands that cobra has, and makes them refuse what does not exist. The output must be set.
func addHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.RunE = runHelp
		case "completion":
			c.Args, c.RunE = noArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// runHelp shows the help of the command that the arguments name.
func runHelp(help *cobra.Command, args []string) error {
	cmd, rest, err := help.Root().Find(args)
	if err != nil {
		return usage(err)
	}
	if len(rest) > 0 {
		return unknownCommand(cmd, rest[0])
	}
	cmd.InitDefaultHelpFlag()
	return cmd.Help()
}

// in adds commands to a group of the help text.
func in(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
		root.AddCommand(c)
	}
}

func runRoot(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return unknownCommand(cmd, args[0])
}

// unknownCommand is the error about a command that parent does not have.
func unknownCommand(parent *cobra.Command, name string) error {
	message := fmt.Sprintf("unknown command %s", wording.Quote(name))
	if parent.HasParent() {
		message += fmt.Sprintf(" of %s", parent.CommandPath())
	}
	parent.SuggestionsMinimumDistance = 2
	if near := parent.SuggestionsFor(name); len(near) > 0 {
		message += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usage(errors.New(message))
}

// Run runs the command line and returns its exit status. An error goes to stderr.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := Root()
	root.SetArgs(append([]string{}, args...)) // nil would mean those of the process
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	addHelp(root)
	cmd, err := root.ExecuteContextC(ctx)
	status := ExitStatus(err)
	var quiet *exitError
	if err == nil || errors.As(err, &quiet) && quiet.err == nil {
		return status
	}
	fmt.Fprintf(stderr, "%s: %v\n", cmd.CommandPath(), err)
	if status == exitUsage {
		fmt.Fprintf(stderr, "See %s --help.\n", cmd.CommandPath())
	}
	return status
}
