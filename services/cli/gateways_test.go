package cli

import (
	"strings"
	"testing"

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
