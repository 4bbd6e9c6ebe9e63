package cli

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
)

const checkLong = `check asks a coordinator whether the installation is healthy, and says what to do where it is
not: etcd, the configuration, security, the leader and, if that coordinator leads, gateways
and pools.

Exit status: 0 healthy, 1 something has failed or no coordinator answers. A warning, of what
works and may not be meant, counts as healthy unless --strict is given.`

const checkExample = `  titrate check
  titrate check --strict --server coordinator-0.titrate:7400`

func newCheck() *cobra.Command {
	var (
		c      connection
		output command.Format
		strict bool
	)
	cmd := &cobra.Command{
		Use:     "check",
		Short:   "Say whether the installation is healthy, and what to do",
		Long:    checkLong,
		Example: checkExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.use(func(client *client) error { return runCheck(cmd, client, output, strict) })
		},
	}
	c.flags(cmd)
	output.Flag(cmd)
	cmd.Flags().BoolVar(&strict, "strict", false, "fail on warnings too")
	return cmd
}

func runCheck(cmd *cobra.Command, client *client, output command.Format, strict bool) error {
	found, err := client.Check(cmd.Context(), &quotav1.CheckRequest{})
	if err != nil {
		return worded(err)
	}
	err = output.Message(cmd.OutOrStdout(), found, func(w io.Writer) error {
		t := command.NewTable("CATEGORY", "STATE", "FINDING")
		for _, f := range found.GetFindings() {
			t.Add(f.GetCategory(), f.GetState().String(), f.GetMessage())
			if f.GetAdvice() != "" {
				t.Add("", "", "what to do: "+f.GetAdvice())
			}
		}
		return t.Write(w)
	})
	return errors.Join(err, verdict(found.GetFindings(), strict))
}

// verdict is the exit status of findings: the findings have been printed.
func verdict(findings []*quotav1.Finding, strict bool) error {
	for _, f := range findings {
		if f.GetState() == quotav1.Finding_FAILED || strict && f.GetState() == quotav1.Finding_WARNING {
			return &command.Exit{Status: command.ExitFailed}
		}
	}
	return nil
}
