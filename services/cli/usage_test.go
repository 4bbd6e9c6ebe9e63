package cli

import (
	"strings"
	"testing"

	"github.com/titrate/titrate/services/command"
)

func TestUsageOfQuotas(t *testing.T) {
	server := serveAPI(t)
	table := must(t, server, "", "usage", "acme", "monthly")
	for _, want := range []string{"key-1", "825", "82.5%", "open", "final, 1 agents without a last report"} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is not in\n%s", want, table)
		}
	}
	if strings.Contains(table, "\x1b") {
		t.Errorf("a client's name reaches the terminal: %q", table)
	}
	if got := must(t, server, "", "usage", "-o", "json"); !strings.Contains(got, `"18"`) {
		t.Error(got)
	}
}

func TestExportOfUsage(t *testing.T) {
	server := serveAPI(t)
	for format, want := range map[string]string{"json": `{"id":"18","limit":"tenants/acme/limits/monthly",`,
		"cloudevents": `{"specversion":"1.0","id":"18","source":"/titrate/tenants/acme/limits/monthly",` +
			`"type":"dev.titrate.usage.ended.v1",`} {
		status, out, said := titrate(t, server, "", "usage", "--export", format)
		if status != command.ExitOK || !strings.HasPrefix(out, want) || strings.Count(out, "\n") != 1 ||
			!strings.Contains(said, "Left out: 1 records") {
			t.Errorf("%s: %d %s%s", format, status, out, said)
		}
	}
	fails(t, server, command.ExitUsage, "", []string{"want json or cloudevents"}, "usage", "--export", "csv")
	fails(t, server, command.ExitUsage, "", []string{"none beside --export"}, "usage", "--export", "json", "-o", "yaml")
}
