package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/titrate/titrate/services/wording"
)

// Program makes a command the root of a program, with all its subcommands: it adds the command version, and words
// errors. elsewhere has commands of other programs, by the name under which a user may look for them here.
func Program(root *cobra.Command, elsewhere map[string]string) {
	version := versionFlag(root)
	root.Args = cobra.ArbitraryArgs // RunE words the error
	root.SilenceUsage, root.SilenceErrors = true, true
	unknown := func(name string) error {
		if to := elsewhere[name]; to != "" {
			return Usagef("%s is a command of another program: %s", wording.Quote(name), to)
		}
		return unknownCommand(root, name)
	}
	root.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *version:
			return printVersion(cmd, root.Name())
		case len(args) == 0:
			return cmd.Help()
		default:
			return unknown(args[0])
		}
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		return Usage(cmd.ValidateRequiredFlags())
	}
	root.AddCommand(newVersion(root.Name()))
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if args := cmd.Flags().Args(); cmd == root && len(args) > 0 { // the flag is of a command that there is not
			return unknown(args[0])
		}
		return Usage(err)
	})
	for _, c := range root.Commands() {
		if check := c.Args; check != nil {
			c.Args = func(cmd *cobra.Command, args []string) error { return Usage(check(cmd, args)) }
		}
	}
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
			c.Args, c.RunE = NoArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// runHelp shows the help of the command that the arguments name.
func runHelp(help *cobra.Command, args []string) error {
	cmd, rest, err := help.Root().Find(args)
	if err != nil {
		return Usage(err)
	}
	if len(rest) > 0 {
		return unknownCommand(cmd, rest[0])
	}
	cmd.InitDefaultHelpFlag()
	return cmd.Help()
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
	return Usage(errors.New(message))
}

// Run runs a program's command line and returns its exit status. An error goes to stderr.
func Run(ctx context.Context, root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root.SetArgs(append([]string{}, args...)) // nil would mean those of the process
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	addHelp(root)
	cmd, err := root.ExecuteContextC(ctx)
	status := ExitStatus(err)
	var silent *Exit
	if err == nil || errors.As(err, &silent) && silent.err == nil {
		return status
	}
	fmt.Fprintf(stderr, "%s: %v\n", cmd.CommandPath(), err)
	if status == ExitUsage {
		fmt.Fprintf(stderr, "See %s --help.\n", cmd.CommandPath())
	}
	return status
}

// Group adds commands to a group of the help text.
func Group(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
		root.AddCommand(c)
	}
}
