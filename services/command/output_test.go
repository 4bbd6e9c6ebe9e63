package command

import (
	"strings"
	"testing"
)

// A display name cannot bring a terminal to obey it, nor break a table's lines.
func TestTablesShowControlCharacters(t *testing.T) {
	tab := NewTable("NAME", "DISPLAY NAME")
	tab.Add("tenants/a", "a\x1b[31mred\nnew\u202eline é")
	var b strings.Builder
	if err := tab.Write(&b); err != nil {
		t.Fatal(err)
	}
	want := "NAME       DISPLAY NAME\ntenants/a  a\ufffd[31mred\ufffdnew\ufffdline é\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
