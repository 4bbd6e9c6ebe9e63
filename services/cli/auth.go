package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
)

const canILong = `can-i asks a coordinator whether you may do something, and prints yes, or no with the
reason. Your name is in your certificate (--tls-cert) or goes with your token (--token-file).

Verbs: get, list, why, top, plan, history, check (reading); apply, create, update, delete
(changing; they need a RESOURCE); rollback; connect (of agents).

--list says who you are to the coordinator, by what, and what you may do.

Exit status: 0 yes, 1 no or no answer.`

const canIExample = `  titrate auth can-i apply tenants/acme/limits/per-client
  titrate auth can-i delete pools/api --token-file ci.token
  titrate auth can-i rollback
  titrate auth can-i --list`

// newAuth has what is about the caller.
func newAuth() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "auth",
		Short: "Say who you are to the coordinator, and what you may do",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCanI())
	return cmd
}

func newCanI() *cobra.Command {
	var (
		c      connection
		output command.Format
		list   bool
		ask    quotav1.GetAccessRequest
	)
	cmd := &cobra.Command{
		Use:     "can-i VERB [RESOURCE] | --list",
		Short:   "Say whether you may do something",
		Long:    canILong,
		Example: canIExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case list && len(args) > 0:
				return command.Usagef("--list takes no VERB: it lists all that you may do")
			case !list && (len(args) == 0 || len(args) > 2):
				return command.Usagef("want VERB and, of what is changed, RESOURCE, such as apply tenants/acme; " +
					"or --list")
			}
			if len(args) > 0 {
				ask.Verb = args[0]
			}
			if len(args) > 1 {
				ask.Resource = args[1]
			}
			return c.use(func(client *client) error { return runCanI(cmd, client, output, &ask) })
		},
	}
	c.flags(cmd)
	output.Flag(cmd)
	cmd.Flags().BoolVar(&list, "list", false, "say who you are, by what, and all that you may do")
	return cmd
}

func runCanI(cmd *cobra.Command, client *client, output command.Format, ask *quotav1.GetAccessRequest) error {
	answer, err := client.access.GetAccess(cmd.Context(), ask)
	if err != nil {
		return worded(err)
	}
	err = output.Message(cmd.OutOrStdout(), answer, func(w io.Writer) (err error) {
		switch {
		case ask.GetVerb() == "":
			err = writeAccess(w, answer)
		case answer.GetAllowed():
			_, err = fmt.Fprintln(w, "yes")
		default:
			_, err = fmt.Fprintf(w, "no: %s\n", shown(answer.GetReason()))
		}
		return err
	})
	if err == nil && ask.GetVerb() != "" && !answer.GetAllowed() {
		return &command.Exit{Status: command.ExitFailed}
	}
	return err
}

// reads and changes are the verbs of roles, for people.
const (
	reads   = "get, list, why, top, plan, history, check"
	changes = "apply, create, update, delete"
)

// ofTenants says what a grant for named tenants is about.
func ofTenants(g *quotav1.AccessGrant) string {
	return "tenants/" + strings.Join(g.GetTenants(), ", tenants/") + ", with quotas and limits"
}

// writeAccess says who the caller is, and a line for each role.
func writeAccess(w io.Writer, a *quotav1.GetAccessResponse) error {
	by := "known by a " + a.GetCredential()
	if a.GetCredential() == "" {
		by = "not known: the coordinator asks for no credentials, and any client that can connect may do everything"
	}
	if a.GetExpireTime() != nil {
		by += " that ends " + a.GetExpireTime().AsTime().Format(time.RFC3339)
	}
	if _, err := fmt.Fprintf(w, "%s, %s\n", shown(a.GetCaller()), by); err != nil {
		return err
	}
	t := command.NewTable("ROLE", "MAY", "WHAT")
	for _, g := range a.GetGrants() {
		switch g.GetRole() {
		case "agent":
			t.Add(g.GetRole(), "connect", "as an agent")
		case "tenant-viewer":
			t.Add(g.GetRole(), "get, list, why, top", ofTenants(g))
		case "viewer":
			t.Add(g.GetRole(), reads, "everything")
		case "editor":
			t.Add(g.GetRole(), reads, "everything")
			what := ofTenants(g)
			if g.GetCeiling() != "" {
				what += ", at most " + g.GetCeiling()
			}
			t.Add("", changes, what)
		case "admin":
			t.Add(g.GetRole(), reads+", "+changes+", rollback", "everything")
		}
	}
	if len(a.GetGrants()) == 0 {
		t.Add("none", "nothing", "")
	}
	return t.Write(w)
}
