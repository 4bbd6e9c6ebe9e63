package cli

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/store/resource"
)

const whyLong = `why says who is limited, by what, and how the number comes about: for each pool that
the tenant uses a sentence about its share, with its working and a line for each gateway;
for each limit that refused, held or would have refused requests lately a sentence with how
many, since when and what the limit lets pass; and the clients to which that happened the
most.

A second argument names one pool or one limit. --client asks about one client. --shadow
says what limits and quotas in mode SHADOW would do if they were enforced; without a TENANT
to whom, of all tenants.

Now is the coordinator's last round, of at most two seconds: shares and demand are as of then.
Numbers of requests are of about the last minute, those of clients of about the last two
minutes. The tenant - has all requests that name no tenant, or a tenant that is not
configured. Clients come from a gateway's sketch: a client with few refusals may be
missing, and each number may be too high by the error beside it.

why request ID says what was decided about one request, step by step. ID is Envoy's
x-request-id: the body and the headers of a refusal have it, and access logs with
%REQ(X-REQUEST-ID)%. Agents remember requests that were refused, held, marked or let pass by
SHADOW, the latest 2,048 of each sixteenth of the tenants, and of each gateway at most some
130 a second of one tenant. If no gateway knows the request, the exit status is 1. A
tenant that is called request is tenants/request.`

const whyExample = `  titrate why acme
  titrate why acme api
  titrate why acme limits/per-client
  titrate why acme --client app-7
  titrate why acme --shadow
  titrate why --shadow
  titrate why request 7d6ac4ae-8f1c-4f0e-9a53-0a3c5f6f2d11
  titrate why tenants/acme pools/api -o json`

func newWhy() *cobra.Command {
	var (
		c       connection
		output  command.Format
		request quotav1.WhyRequest
	)
	cmd := &cobra.Command{
		Use:     "why TENANT [POOL | LIMIT] | request ID | --shadow",
		Short:   "Explain what limits a tenant, or why one request was refused",
		Long:    whyLong,
		Example: whyExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 2 || len(args) == 0 && (!request.GetShadow() || request.GetClient() != "") {
				return command.Usagef("want a TENANT, and a POOL or LIMIT if you like; or --shadow alone")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.use(func(client *client) error { return runWhyShadow(cmd, client, output) })
			}
			if len(args) == 2 && args[0] == aboutRequest {
				return c.use(func(client *client) error { return runWhyRequest(cmd, client, output, args[1]) })
			}
			var err error
			if request.Tenant, err = full(resource.Tenant, args[0]); err != nil {
				return command.Usage(err)
			}
			about := ""
			if len(args) == 2 {
				about = args[1]
			}
			return c.use(func(client *client) error { return runWhy(cmd, client, output, &request, about) })
		},
	}
	c.flags(cmd)
	output.Flag(cmd)
	cmd.Flags().StringVar(&request.Client, "client", "", "ask about this client of the tenant")
	cmd.Flags().BoolVar(&request.Shadow, "shadow", false, "say what enforcing limits and quotas in SHADOW would do")
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

// setAbout sets what the second argument names. sure is false for a name without collection:
// it may be a pool or a limit, and is taken for a pool.
func setAbout(r *quotav1.WhyRequest, about string) (sure bool, err error) {
	about = strings.TrimPrefix(about, r.GetTenant()+"/")
	if name, is := strings.CutPrefix(about, "limits/"); is {
		r.Limit = name
		return true, nil
	}
	if about == "" {
		return true, nil
	}
	r.Pool, err = full(resource.Pool, about)
	return strings.Contains(about, "/"), err
}

func runWhy(cmd *cobra.Command, client *client, output command.Format, r *quotav1.WhyRequest, about string) error {
	sure, err := setAbout(r, about)
	if err != nil {
		return command.Usage(err)
	}
	response, err := client.Why(cmd.Context(), r)
	if !sure && status.Code(err) == codes.NotFound {
		response, err = whyLimit(cmd.Context(), client, r, about, err)
	}
	if err != nil {
		return worded(err)
	}
	return output.Message(cmd.OutOrStdout(), response, func(w io.Writer) error { return writeWhy(w, response) })
}

// whyLimit asks about a limit of a name that no pool has. If no limit has it either, the error is the pool's, unless
// only the limit's has a name that is near.
func whyLimit(ctx context.Context, c *client, r *quotav1.WhyRequest, name string, noPool error) (
	*quotav1.WhyResponse, error) {
	pool := r.Pool
	r.Pool, r.Limit = "", name
	response, err := c.Why(ctx, r)
	if status.Code(err) == codes.NotFound {
		r.Pool, r.Limit = pool, ""
		if guessed(err) && !guessed(noPool) {
			return nil, err
		}
		return nil, noPool
	}
	return response, err
}

// writeWhy writes paragraphs, an empty line between two.
func writeWhy(w io.Writer, response *quotav1.WhyResponse) error {
	var paragraphs []string
	for _, e := range response.GetExplanations() {
		titles, sites := []string{"  GATEWAY"}, slices.ContainsFunc(e.GetGateways(),
			func(g *quotav1.GatewayPart) bool { return g.GetSite() != "" })
		if sites {
			titles = append(titles, "SITE")
		}
		t := command.NewTable(append(titles, "#DEMAND", "#ADMITTED")...)
		for _, g := range e.GetGateways() {
			cells := []string{"  " + g.GetGateway()}
			if sites {
				cells = append(cells, cmp.Or(g.GetSite(), command.None))
			}
			t.Add(append(cells, command.PerSecond(g.GetDemand()), command.PerSecond(g.GetAdmitted()))...)
		}
		paragraphs = append(paragraphs, shown(e.GetSentence())+"\n"+t.Text())
	}
	for _, l := range response.GetLimits() {
		paragraphs = append(paragraphs, shown(l.GetSentence())+"\n"+activityTable("  GATEWAY", l.GetGateways(),
			(*quotav1.Activity).GetGateway).Text())
	}
	if clients := response.GetClients(); len(clients) > 0 {
		paragraphs = append(paragraphs, clientTable(clients).Text())
	}
	for _, note := range response.GetNotes() {
		paragraphs = append(paragraphs, shown(note)+"\n")
	}
	_, err := io.WriteString(w, strings.Join(paragraphs, "\n"))
	return err
}

// shown is a text that a terminal shows and does not obey: a client may have chosen its name.
func shown(text string) string { return strings.Map(command.Printable, text) }

// activityTable has a row for each of some gateways or the like.
func activityTable(title string, rows []*quotav1.Activity, name func(*quotav1.Activity) string) *command.Table {
	t := command.NewTable(title, "#REFUSED", "#WAITED", "#SHADOWED")
	for _, m := range rows {
		t.Add("  "+name(m), count(m.GetRefused()), count(m.GetWaited()), count(m.GetShadowed()))
	}
	return t
}

func clientTable(rows []*quotav1.Activity) *command.Table {
	t := command.NewTable("CLIENT", "LIMIT", "#REFUSED", "#SHADOWED",
		"#WAITED", "#ERROR")
	for _, m := range rows {
		t.Add(cmp.Or(m.GetClient(), command.None), cmp.Or(m.GetLimit(), command.None), count(m.GetRefused()),
			count(m.GetShadowed()),
			command.Number(m.GetWaitedSeconds())+" s", count(m.GetError()))
	}
	return t
}

func count(n uint64) string { return strconv.FormatUint(n, 10) }
