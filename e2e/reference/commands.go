package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/titrate/titrate/papers/markdown"
)

// connection are the flags of every command that asks a coordinator; they are described once.
var connection = []string{"server", "context", "timeout", "token-file", "tls-ca", "tls-cert", "tls-key", "insecure"}

// commands describes each command; commands that help does not list come last.
func commands(root *cobra.Command) string {
	var b strings.Builder
	if asks, _, err := root.Find([]string{"get"}); err == nil {
		b.WriteString("## Reaching a coordinator\n\nFlags of every command that asks one:\n\n")
		b.WriteString(flagTable(asks, func(f *pflag.Flag) bool { return slices.Contains(connection, f.Name) }))
	}
	for _, hidden := range []bool{false, true} {
		for _, c := range root.Commands() {
			if c.Hidden == hidden && c.Name() != "help" && c.Name() != "completion" {
				describe(&b, c)
			}
		}
	}
	return b.String()
}

// describe writes a command and those below it.
func describe(b *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(b, "\n## %s\n\n%s.\n\n", c.CommandPath(), c.Short)
	if c.Hidden {
		b.WriteString("For trials and tests; `" + c.Root().Name() + " --help` does not list it.\n\n")
	}
	if c.Runnable() && !c.HasSubCommands() || c.Flags().HasAvailableFlags() {
		fmt.Fprintf(b, "```\n%s\n```\n\n", c.UseLine())
	}
	if c.Long != "" {
		fmt.Fprintf(b, "```text\n%s\n```\n\n", strings.TrimSpace(c.Long))
	}
	if c.Example != "" {
		fmt.Fprintf(b, "Examples:\n\n```\n%s\n```\n\n", strings.TrimRight(c.Example, "\n"))
	}
	writeFlags(b, c)
	for _, below := range c.Commands() {
		describe(b, below)
	}
}

func writeFlags(b *strings.Builder, c *cobra.Command) {
	asks := c.Flags().Lookup("server") != nil && c.Flags().Lookup("timeout") != nil
	own := func(f *pflag.Flag) bool {
		return f.Name != "help" && !f.Hidden && (!asks || !slices.Contains(connection, f.Name))
	}
	if table := flagTable(c, own); table != "" {
		b.WriteString(table)
	}
	if asks {
		b.WriteString("\nAnd the flags for [reaching a coordinator](#reaching-a-coordinator).\n")
	}
}

// flagTable has a row for each flag that is wanted; "" if there is none.
func flagTable(c *cobra.Command, wanted func(*pflag.Flag) bool) string {
	var rows [][]string
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !wanted(f) {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		rows = append(rows, []string{name, f.Value.Type(), defaultText(f), f.Usage})
	})
	if len(rows) == 0 {
		return ""
	}
	return markdown.Table([]string{"flag", "value", "default", "meaning"}, rows)
}

func defaultText(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "[]":
		return ""
	}
	return "`" + f.DefValue + "`"
}
