package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/titrate/titrate/services/command"
)

const configLong = `config keeps contexts: named coordinators, each with its address and with what to show
to it. Commands that ask a coordinator use the first of these that is there:

  --server               the address alone: no context counts
  --context              that context
  TITRATE_SERVER         the address alone: no context counts
  TITRATE_CONTEXT        that context
  titrate config use     the current context
  127.0.0.1:7400

What else flags say (--tls-ca, --tls-cert, --tls-key, --token-file, --insecure), and
TITRATE_TOKEN_FILE, replaces that one setting of the context. titrate config show says what
is in force, and what has said so.

The file is config.yaml in $XDG_CONFIG_HOME/titrate, by default ~/.config/titrate;
TITRATE_CONFIG names another one. It has the names of files, no token and no key.`

const configExample = `  titrate config set prod --server coordinator.example.org:7400 \
    --tls-ca ca.crt --token-file ops.token
  titrate config set here --server 127.0.0.1:7400
  titrate config use prod
  titrate get --context here
  titrate config list`

// newConfig has the commands for contexts.
func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "config",
		Short:   "Keep the addresses and credentials of several coordinators",
		Long:    configLong,
		Example: configExample,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigUse(), newConfigList(), newConfigShow(), newConfigSet(), newConfigDelete())
	return cmd
}

// oneContext wants the name of a context as the only argument.
func oneContext(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return command.Usagef("want one NAME of a context; titrate config list lists them")
	}
	return command.Usage(checkName(args[0]))
}

// completeContexts completes names of contexts.
func completeContexts(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	c, err := readContexts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.names(), cobra.ShellCompDirectiveNoFileComp
}

func newConfigUse() *cobra.Command {
	return &cobra.Command{
		Use:               "use NAME",
		Short:             "Make a context the current one",
		Args:              oneContext,
		ValidArgsFunction: completeContexts,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, found, err := readContext(args[0])
			if err != nil {
				return err
			}
			c.Current = args[0]
			if err := c.write(); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "context %s: %s\n", args[0], found.Server)
			return err
		},
	}
}

func newConfigList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the contexts",
		Args:  func(cmd *cobra.Command, args []string) error { return command.Usage(cobra.NoArgs(cmd, args)) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readContexts()
			if err != nil {
				return err
			}
			if len(c.Contexts) == 0 {
				fmt.Fprintf(cmd.ErrOrStderr(),
					"%s has no context; titrate config set NAME --server HOST:PORT makes one.\n", c.path)
				return nil
			}
			t := command.NewTable("CURRENT", "NAME", "SERVER", "SHOWS")
			for _, name := range c.names() {
				current := ""
				if name == c.Current {
					current = "*"
				}
				t.Add(current, name, c.Contexts[name].Server, c.Contexts[name].shows())
			}
			return t.Write(cmd.OutOrStdout())
		},
	}
}

// shows returns the kind of credential that a coordinator of the context is shown.
func (s *settings) shows() string {
	switch {
	case s.Token != "":
		return "token"
	case s.Cert != "":
		return "certificate"
	}
	return command.None
}

func newConfigShow() *cobra.Command {
	var c connection
	cmd := &cobra.Command{
		Use:   "show [--context NAME]",
		Short: "Show which coordinator commands ask, with what, and what has said so",
		Args:  func(cmd *cobra.Command, args []string) error { return command.Usage(cobra.NoArgs(cmd, args)) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.resolve(); err != nil {
				return err
			}
			t := command.NewTable("SETTING", "VALUE", "SAID BY")
			for _, one := range c.texts() {
				if *one.value != "" {
					t.Add(one.flag, *one.value, c.from[one.flag])
				}
			}
			if c.Insecure {
				t.Add("insecure", "true", c.from["insecure"])
			}
			return t.Write(cmd.OutOrStdout())
		},
	}
	c.flags(cmd)
	return cmd
}

const configSetLong = `set makes a context, or changes the settings of one that its flags name; a flag with an
empty value takes its setting away. Names of files become absolute, so that the context
means the same in each directory. The first context becomes the current one.`

func newConfigSet() *cobra.Command {
	var c connection
	cmd := &cobra.Command{
		Use:               "set NAME --server HOST:PORT",
		Short:             "Make or change a context",
		Long:              configSetLong,
		Example:           strings.Join(strings.SplitAfterN(configExample, "\n", 4)[:3], ""),
		Args:              oneContext,
		ValidArgsFunction: completeContexts,
		RunE:              func(cmd *cobra.Command, args []string) error { return runConfigSet(cmd, &c, args[0]) },
	}
	c.set = cmd.Flags()
	c.settingsFlags(c.set)
	return cmd
}

func runConfigSet(cmd *cobra.Command, c *connection, name string) error {
	all, err := readContexts()
	if err != nil {
		return err
	}
	done, s := "changed", all.Contexts[name]
	if s == nil {
		done, s = "created", &settings{}
		all.Contexts[name] = s
		if !c.given("server") {
			return command.Usagef("context %s is new: give its --server", name)
		}
	}
	if err := c.into(s); err != nil {
		return command.Usage(err)
	}
	if len(all.Contexts) == 1 {
		all.Current = name
	}
	if err := all.write(); err != nil {
		return err
	}
	current := ""
	if all.Current == name {
		current = ", the current one"
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "context %s %s: %s%s\n", name, done, s.Server, current)
	return err
}

// into writes what flags say into settings, and checks them.
func (c *connection) into(s *settings) error {
	for i, one := range s.texts() {
		if !c.given(one.flag) {
			continue
		}
		given, err := *c.texts()[i].value, error(nil)
		if given != "" && one.value != &s.Server {
			if given, err = filepath.Abs(given); err == nil {
				_, err = os.Stat(given)
			}
		}
		if err != nil {
			return fmt.Errorf("--%s: %w", one.flag, err)
		}
		*one.value = given
	}
	if c.given("insecure") {
		s.Insecure = c.Insecure
	}
	return s.check()
}

func newConfigDelete() *cobra.Command {
	return &cobra.Command{
		Use:               "delete NAME",
		Short:             "Delete a context",
		Args:              oneContext,
		ValidArgsFunction: completeContexts,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, _, err := readContext(args[0])
			if err != nil {
				return err
			}
			delete(c.Contexts, args[0])
			if c.Current == args[0] {
				c.Current = ""
			}
			if err := c.write(); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "context %s deleted\n", args[0])
			return err
		},
	}
}
