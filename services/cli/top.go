package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/pause"
	"github.com/titrate/titrate/services/wording"
)

const topLong = `top shows what became of requests at all gateways: NOW, in the last ten to twenty seconds, and
in about the last minute: requests per second that were admitted, refused, waited, were
marked, or were let pass by a mode SHADOW. LAST MINUTE is what was asked for, a character for
ten seconds, the newest last. A row is a tenant, or with --by a pool, a limit of a tenant, a
gateway, a site or a client.

The tenant - has all requests that name no tenant, or a tenant that is not configured.
The row "other" is all that is in no row. SINCE says for how long requests have been limited
without a pause of a minute. Of limits the admitted requests are not counted. Clients are
from gateways' sketches, in requests of the last one to two minutes: one with few
refusals may be missing, and a number may be too high by ERROR.

--tenant, --pool, --limit, --client, --gateway and --site count only what has that name. A name that no
request was counted under, and that nothing configured and no gateway has, is an error; names of
clients are not known, so any is taken.

At a terminal top is drawn anew every --every until q, with as many rows as fit, and bars in
the room beside; the rest is in "other". Keys: t tenant, p pool, l limit, c client, g gateway; r refused, a admitted,
w waited, s shadowed, m marked; @ by site. --once prints one table.`

const topExample = `  titrate top
  titrate top --by limit --tenant acme
  titrate top --by client --sort shadowed
  titrate top --by site
  titrate top --once -o json`

// top has the flags of the command top.
type top struct {
	c         connection
	output    command.Format
	by, order string
	selection quotav1.Selection
	once      bool
	every     time.Duration
}

func newTop() *cobra.Command {
	t := &top{}
	cmd := &cobra.Command{
		Use:     "top",
		Short:   "Show who is admitted, refused and held now",
		Long:    topLong,
		Example: topExample,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return t.run(cmd) },
	}
	t.c.flags(cmd)
	t.output.Flag(cmd)
	f := cmd.Flags()
	f.StringVar(&t.by, "by", "tenant", "what a row is: tenant, pool, limit, client, gateway or site")
	f.StringVar(&t.order, "sort", "refused", "what the first rows have the most of: refused, admitted, waited, "+
		"shadowed or marked")
	f.Int32Var(&t.selection.Most, "rows", 0, "rows, 1 to 1000 (default 20; on a screen as many as fit)")
	for _, one := range []struct {
		name string
		to   *string
	}{{"tenant", &t.selection.Tenant}, {"pool", &t.selection.Pool}, {"limit", &t.selection.Limit},
		{"client", &t.selection.Client}, {"gateway", &t.selection.Gateway}, {"site", &t.selection.Site}} {
		f.StringVar(one.to, one.name, "", "count only this "+one.name)
	}
	f.BoolVar(&t.once, "once", false, "print one table and end")
	f.DurationVar(&t.every, "every", 2*time.Second, "time between two tables, at least 1s")
	return cmd
}

func (t *top) run(cmd *cobra.Command) error {
	if err := t.read(); err != nil {
		return command.Usage(err)
	}
	client, err := t.c.dial()
	if err != nil {
		return err
	}
	defer client.close()
	out := cmd.OutOrStdout()
	if t.output == command.AsTable && !t.once && command.Terminal(out) {
		return t.screen(cmd.Context(), client, out)
	}
	for {
		response, err := client.Top(cmd.Context(), &quotav1.TopRequest{Selection: &t.selection})
		if err != nil {
			return worded(err)
		}
		if err := t.write(out, response); err != nil || t.once {
			return err
		}
		if !pause.For(cmd.Context(), t.every) {
			return nil
		}
	}
}

// read checks the flags.
func (t *top) read() error {
	by, known := quotav1.Selection_By_value[strings.ToUpper(t.by)]
	if !known || by == 0 {
		return fmt.Errorf("--by %q: want tenant, pool, limit, client, gateway or site%s", t.by,
			wording.Meant(t.by, []string{"tenant", "pool", "limit", "client", "gateway", "site"}))
	}
	order, known := quotav1.Selection_Order_value[strings.ToUpper(t.order)]
	if !known || order == 0 {
		return fmt.Errorf("--sort %q: want refused, admitted, waited, shadowed or marked%s", t.order,
			wording.Meant(t.order, []string{"refused", "admitted", "waited", "shadowed", "marked"}))
	}
	if t.selection.Most < 0 || t.selection.Most > 1000 {
		return fmt.Errorf("--rows %d: want 1 to 1000", t.selection.Most)
	}
	if t.every < time.Second {
		return fmt.Errorf("--every %s: want at least 1s", t.every)
	}
	t.selection.By, t.selection.Order = quotav1.Selection_By(by), quotav1.Selection_Order(order)
	t.selection.Tenant = strings.TrimPrefix(t.selection.Tenant, "tenants/")
	t.selection.Pool = strings.TrimPrefix(t.selection.Pool, "pools/")
	t.selection.Limit = t.selection.Limit[strings.LastIndex(t.selection.Limit, "/")+1:]
	return nil
}

func (t *top) write(w io.Writer, r *quotav1.TopResponse) error {
	return t.output.Message(w, r, func(w io.Writer) error {
		_, err := io.WriteString(w, topText(t.selection.By, r, 0))
		return err
	})
}

// topText is the table, at most so wide if width is not 0, and what is missing in it.
func topText(by quotav1.Selection_By, r *quotav1.TopResponse, width int) string {
	var text string
	switch {
	case len(r.GetRows()) == 0:
		text = "No request was counted in the last minute.\n"
	case by == quotav1.Selection_CLIENT:
		text = clientTop(r).Within(width)
	default:
		t := rateTop(by, r)
		narrow(t, width)
		bars(t, append(slices.Clone(r.GetRows()), others(r)...), width)
		text = t.Within(width)
	}
	for _, note := range append(missing(r), r.GetNotes()...) {
		text += shown(note) + "\n"
	}
	return text
}

// missing says which agents did not answer.
func missing(r *quotav1.TopResponse) []string {
	switch n := len(r.GetSilent()); {
	case r.GetAgents() == 0:
		return []string{"No agent is connected, so what gateways do is not known."}
	case n > 0:
		return []string{fmt.Sprintf("%d of %s did not answer: %s", n, wording.Count(r.GetAgents(), "agent"),
			wording.Few(r.GetSilent(), 5))}
	}
	return nil
}

func rateTop(by quotav1.Selection_By, r *quotav1.TopResponse) *command.Table {
	titles := map[quotav1.Selection_By]string{quotav1.Selection_POOL: "POOL", quotav1.Selection_LIMIT: "LIMIT",
		quotav1.Selection_GATEWAY: "GATEWAY", quotav1.Selection_SITE: "SITE"}
	title := titles[by]
	if title == "" {
		title = "TENANT"
	}
	t := command.NewTable(title, "#ADMITTED NOW", "#REFUSED NOW", "LAST MINUTE",
		"#ADMITTED", "#REFUSED", "#WAITED", "#MARKED", "#SHADOWED", "#SINCE")
	for _, m := range r.GetRows() {
		t.Add(topRow(nameOf(by, m), m)...)
	}
	for _, m := range others(r) {
		t.Add(topRow("other", m)...)
	}
	return t
}

// others is the row of what is in no other, if there is one.
func others(r *quotav1.TopResponse) []*quotav1.Activity {
	if r.GetOther() == nil {
		return nil
	}
	return []*quotav1.Activity{r.GetOther()}
}

// nameOf returns the name in a row's first column.
func nameOf(by quotav1.Selection_By, m *quotav1.Activity) string {
	switch by {
	case quotav1.Selection_POOL:
		return cmp.Or(m.GetPool(), command.None)
	case quotav1.Selection_GATEWAY:
		return m.GetGateway()
	case quotav1.Selection_SITE:
		return cmp.Or(m.GetSite(), command.None)
	case quotav1.Selection_LIMIT:
		name := m.GetTenant() + "/" + m.GetLimit()
		if m.GetPool() != "" {
			name += " (" + m.GetPool() + ")"
		}
		return name
	}
	return m.GetTenant()
}

// rateOf is a number of requests as a rate over the window of its row.
func rateOf(m *quotav1.Activity, n uint64) string {
	window := m.GetWindow().AsDuration().Seconds()
	if window <= 0 {
		return count(n)
	}
	return command.PerSecond(float64(n) / window)
}

func topRow(name string, m *quotav1.Activity) []string {
	each := func(n uint64) string { return rateOf(m, n) }
	since := command.None
	if m.GetSince() != nil {
		since = m.GetSince().AsDuration().Round(time.Second).String()
	}
	admitted, refused := recent(m)
	return []string{name, admitted, refused, spark(m), each(m.GetAdmitted()), each(m.GetRefused()),
		each(m.GetWaited()), each(m.GetMarked()), each(m.GetShadowed()), since}
}

func clientTop(r *quotav1.TopResponse) *command.Table {
	t := command.NewTable("CLIENT", "TENANT", "LIMIT", "#REFUSED",
		"#SHADOWED", "#WAITED", "#ERROR")
	row := func(name string, m *quotav1.Activity) {
		t.Add(name, cmp.Or(m.GetTenant(), command.None), cmp.Or(m.GetLimit(), command.None), count(m.GetRefused()),
			count(m.GetShadowed()), command.Number(m.GetWaitedSeconds())+" s", count(m.GetError()))
	}
	for _, m := range r.GetRows() {
		row(cmp.Or(m.GetClient(), command.None), m)
	}
	if r.GetOther() != nil {
		row("other", r.GetOther())
	}
	return t
}

// besideRows counts the lines of topText besides the rows: the titles, "other", the agents that did not answer, a note.
const besideRows = 4

// screen redraws the table until the user ends it, with as many rows as the terminal has room for.
func (t *top) screen(ctx context.Context, client *client, out io.Writer) error {
	s := &screen{every: t.every, obey: t.obey, head: t.head}
	s.ask = func() func() (string, error) {
		selection := proto.CloneOf(&t.selection) // keys change it
		width, lines := s.room()
		selection.Most = max(1, min(cmp.Or(selection.Most, 1000), int32(lines-besideRows)))
		return func() (string, error) {
			r, err := client.Top(ctx, &quotav1.TopRequest{Selection: selection})
			return topText(selection.By, r, width), err
		}
	}
	return s.run(ctx, out)
}

func (t *top) obey(key string) {
	if by, is := map[string]quotav1.Selection_By{"t": quotav1.Selection_TENANT, "p": quotav1.Selection_POOL,
		"l": quotav1.Selection_LIMIT, "c": quotav1.Selection_CLIENT, "g": quotav1.Selection_GATEWAY,
		"@": quotav1.Selection_SITE}[key]; is {
		t.selection.By = by
	}
	if order, is := map[string]quotav1.Selection_Order{"r": quotav1.Selection_REFUSED,
		"a": quotav1.Selection_ADMITTED, "w": quotav1.Selection_WAITED, "s": quotav1.Selection_SHADOWED,
		"m": quotav1.Selection_MARKED}[key]; is {
		t.selection.Order = order
	}
}

// head says what the table is, and which keys change it.
func (t *top) head() string {
	return fmt.Sprintf("by %s, most %s first; q ends; t p l c g @: by; r a w s m: first",
		strings.ToLower(t.selection.By.String()), strings.ToLower(t.selection.Order.String()))
}
