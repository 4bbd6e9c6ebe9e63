package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/store/resource"
)

const whyLong = `why says who is limited, by what, and how the number comes about: for each pool that
the tenant uses, or for the one named, a sentence with its working and a line for each
gateway.`

const whyExample = `  titrate why acme
  titrate why acme api
  titrate why tenants/acme pools/api -o json`

func newWhy() *cobra.Command {
	var (
		c      connection
		output format
	)
	cmd := &cobra.Command{
		Use:     "why TENANT [POOL]",
		Short:   "Explain why a tenant gets what it gets",
		Long:    whyLong,
		Example: whyExample,
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			request := &quotav1.WhyRequest{}
			var err error
			if request.Tenant, err = full(resource.Tenant, args[0]); err != nil {
				return usage(err)
			}
			if len(args) == 2 {
				if request.Pool, err = full(resource.Pool, args[1]); err != nil {
					return usage(err)
				}
			}
			return runWhy(cmd, &c, output, request)
		},
	}
	c.flags(cmd)
	output.flag(cmd)
	tenants, pools := completeNames(&c, []resource.Kind{resource.Tenant}),
		completeNames(&c, []resource.Kind{resource.Pool})
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion,
		cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			return tenants(cmd, args, word)
		case 1:
			return pools(cmd, args, word)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

func runWhy(cmd *cobra.Command, c *connection, output format, request *quotav1.WhyRequest) error {
	client, err := c.dial()
	if err != nil {
		return err
	}
	defer client.close()
	response, err := client.Why(cmd.Context(), request)
	if err != nil {
		return worded(err)
	}
	switch output {
	case asJSON:
		return document.MessageJSON(cmd.OutOrStdout(), response)
	case asYAML:
		return document.MessageYAML(cmd.OutOrStdout(), response)
	}
	return writeExplanations(cmd.OutOrStdout(), request, response)
}

func writeExplanations(w io.Writer, request *quotav1.WhyRequest, response *quotav1.WhyResponse) error {
	if len(response.GetExplanations()) == 0 {
		where := "no pool"
		if request.GetPool() != "" {
			where = "nothing of " + request.GetPool()
		}
		_, err := fmt.Fprintf(w, "%s has asked for %s lately, so it has no share.\n", request.GetTenant(), where)
		return err
	}
	for i, e := range response.GetExplanations() {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(w, e.GetSentence()); err != nil {
			return err
		}
		t := &table{columns: []column{{"  GATEWAY", false}, {"DEMAND", true}, {"ADMITTED", true}}}
		for _, g := range e.GetGateways() {
			t.add("  "+g.GetGateway(), perSecond(g.GetDemand()), perSecond(g.GetAdmitted()))
		}
		if err := t.write(w); err != nil {
			return err
		}
	}
	return nil
}
