package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/wording"
)

// gateways is the argument of get that asks for gateways.
const gateways = "gateways"

// isGateways reports whether an argument of get asks for gateways, or one of them.
func isGateways(arg string) bool {
	kind, _, _ := strings.Cut(arg, "/")
	return kind == gateways || kind == "gateway" || kind == "gw"
}

// runGateways shows the gateways, or the ones named by the arguments.
func (g *get) runGateways(cmd *cobra.Command, args []string) error {
	names := map[string]bool{}
	for _, arg := range args {
		if !isGateways(arg) {
			return command.Usagef("%q beside gateways: ask for gateways alone", arg)
		}
		if _, name, ok := strings.Cut(arg, "/"); ok {
			names[name] = true
		}
	}
	if err := g.check(); err != nil {
		return command.Usage(err)
	}
	client, err := g.c.dial()
	if err != nil {
		return err
	}
	defer client.close()
	ctx := cmd.Context()
	if g.watch {
		return g.follow(ctx, cmd.OutOrStdout(), func() (string, error) {
			found, err := client.gateways(ctx, names)
			return gatewayTable(found, time.Now()), err
		})
	}
	found, err := client.gateways(ctx, names)
	if err != nil {
		return worded(err)
	}
	return g.output.Message(cmd.OutOrStdout(), found, func(out io.Writer) error {
		if len(found.GetGateways()) == 0 {
			out = cmd.ErrOrStderr()
		}
		_, err := io.WriteString(out, gatewayTable(found, time.Now()))
		return err
	})
}

// noGateways is said in place of a table.
const noGateways = "No gateway is known. titrate check says whether agents are connected.\n"

// gateways asks for all gateways and keeps those of the names; none means all.
func (c *client) gateways(ctx context.Context, names map[string]bool) (*quotav1.ListGatewaysResponse, error) {
	found, err := c.ListGateways(ctx, &quotav1.ListGatewaysRequest{})
	if err != nil || len(names) == 0 {
		return found, err
	}
	missing := maps.Clone(names)
	var all []string
	found.Gateways = slices.DeleteFunc(found.GetGateways(), func(g *quotav1.Gateway) bool {
		delete(missing, g.GetName())
		all = append(all, g.GetName())
		return !names[g.GetName()]
	})
	if len(missing) > 0 {
		sorted := slices.Sorted(maps.Keys(missing))
		return nil, fmt.Errorf("%s/%s: not known; titrate get gateways lists the known ones%s", gateways,
			strings.Join(sorted, ", "+gateways+"/"), wording.Meant(sorted[0], all))
	}
	return found, nil
}

// gatewayTable lays gateways out.
func gatewayTable(found *quotav1.ListGatewaysResponse, now time.Time) string {
	if len(found.GetGateways()) == 0 {
		return noGateways
	}
	titles, sites := []string{"GATEWAY", "AGENT"}, slices.ContainsFunc(found.GetGateways(),
		func(g *quotav1.Gateway) bool { return g.GetSite() != "" })
	if sites {
		titles = append(titles, "SITE")
	}
	t := command.NewTable(append(titles, "#REVISION", "#BEHIND", "#SINCE", "STATE")...)
	for _, g := range found.GetGateways() {
		revision, since := command.None, command.None
		if g.GetRevision() > 0 {
			revision = strconv.FormatInt(g.GetRevision(), 10)
		}
		if at := g.GetBehindSince(); at != nil {
			since = max(now.Sub(at.AsTime()), 0).Round(time.Second).String()
		}
		cells := []string{g.GetName(), g.GetAgent()}
		if sites {
			cells = append(cells, cmp.Or(g.GetSite(), command.None))
		}
		t.Add(append(cells, revision, behind(g), since, gatewayState(g, now))...)
	}
	return t.Text() + fmt.Sprintf("\nThe configuration has revision %d.\n", found.GetRevision())
}

// behind says how many changes a gateway lacks.
func behind(g *quotav1.Gateway) string {
	if g.GetBehindMore() {
		return strconv.Itoa(int(max(g.GetBehind(), 1))) + "+"
	}
	return strconv.Itoa(int(g.GetBehind()))
}

// gatewayState says in words what a gateway has made of the configuration.
func gatewayState(g *quotav1.Gateway, now time.Time) string {
	if at := g.GetHeard(); at != nil {
		return fmt.Sprintf("agent unreachable for %s", max(now.Sub(at.AsTime()), 0).Round(time.Second))
	}
	var said []string
	if g.GetRefused() > 0 {
		said = append(said, fmt.Sprintf("refuses %d: %s", g.GetRefused(), cmp.Or(g.GetReason(), "no reason given")))
	}
	if g.GetLeftOut() > 0 {
		said = append(said, fmt.Sprintf("limits or quotas left out: %d", g.GetLeftOut()))
	}
	switch {
	case len(said) > 0:
	case g.GetRevision() == 0:
		return "no configuration"
	case g.GetBehind() > 0 || g.GetBehindMore():
		return "behind"
	default:
		return "up to date"
	}
	return strings.Join(said, "; ")
}
