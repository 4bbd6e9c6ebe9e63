package cli

import (
	"strings"
	"testing"
	"time"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
)

// Gateways are asked for alone, by name too; a gateway that no agent reports is named.
func TestGetGateways(t *testing.T) {
	server := serveAPI(t)
	if got := must(t, server, "", "get", "gw/gw-2", "-o", "json"); !strings.Contains(got, `"revision": 90`) ||
		!strings.Contains(got, "gw-2") || strings.Contains(got, "gw-1") {
		t.Errorf("%s", got)
	}
	fails(t, server, command.ExitFailed, "", []string{"gateways/gw-8, gateways/gw-9: not known",
		"titrate get gateways"}, "get",
		"gateways/gw-9", "gw/gw-1", "gw/gw-8")
	fails(t, server, command.ExitUsage, "", []string{"limits, overrides, gateways) nor a name"}, "get", "gatway")
	fails(t, server, command.ExitUsage, "", []string{`"pools" beside gateways`}, "get", "gateways", "pools")
	fails(t, server, command.ExitUsage, "", []string{"--watch is for tables"}, "get", "gateways", "-w", "-o", "yaml")
	fails(t, server, command.ExitUsage, "", []string{"must be table, wide, json or yaml"}, "get", "-o", "xml")
	fails(t, server, command.ExitUsage, "", []string{"must be table, json or yaml", "wide"}, "check", "-o", "wide")
}

// Where a gateway has a site, each has a cell for it.
func TestGatewayTableHasSites(t *testing.T) {
	of := func(sites ...string) (out []string) {
		found := &quotav1.ListGatewaysResponse{}
		for _, site := range sites {
			found.Gateways = append(found.Gateways, &quotav1.Gateway{Name: "gw", Agent: "a", Site: site})
		}
		for line := range strings.Lines(gatewayTable(found, time.Now())) {
			out = append(out, strings.Join(strings.Fields(line), " "))
		}
		return out
	}
	if got := of("eu", ""); got[0] != "GATEWAY AGENT SITE REVISION BEHIND SINCE STATE" ||
		!strings.HasPrefix(got[1], "gw a eu ") || !strings.HasPrefix(got[2], "gw a - ") {
		t.Errorf("%q", got)
	}
	if got := of("", ""); strings.Contains(got[0], "SITE") {
		t.Errorf("%q of one site without a name", got[0])
	}
}

// The tables of limits and tenants fit a terminal of 80 columns.
func TestTablesFitATerminal(t *testing.T) {
	server := serveAPI(t)
	must(t, server, "", "apply", "-f", "testdata/demo.yaml")
	for _, kind := range []string{"tenants", "limits"} {
		for line := range strings.Lines(must(t, server, "", "get", kind)) {
			if len(strings.TrimRight(line, "\n")) > 80 {
				t.Errorf("%d columns: %s", len(line), line)
			}
		}
	}
}
