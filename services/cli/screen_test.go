package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/protobuf/types/known/durationpb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// many is an answer with rows whose names are as long as names may be, with numbers that are as long as they get.
func many(rows int32) *quotav1.TopResponse {
	long := strings.Repeat("n", 63)
	r := &quotav1.TopResponse{Agents: 9}
	for i := range rows + 1 {
		r.Rows = append(r.Rows, &quotav1.Activity{
			Tenant: fmt.Sprint(i, long), Pool: long, Limit: long, Gateway: long, Client: strings.Repeat("c", 128),
			Window: durationpb.New(time.Minute), Since: durationpb.New(100 * time.Hour), Admitted: 6e8, Refused: 6e8,
			Waited: 6e8, Marked: 6e8, Shadowed: 6e8, WaitedSeconds: 1e6, Error: 1e6,
		})
	}
	r.Other, r.Rows = r.Rows[rows], r.Rows[:rows]
	r.Notes = []string{"tenants/acme/limits/output: " + strings.Repeat("x", 200)}
	r.Silent = []string{"gw-1:7501", "gw-2:7501", "gw-3:7501", "gw-4:7501", "gw-5:7501", "gw-6:7501"}
	return r
}

// Whatever a row of top is, the table and its head fit a terminal of 80 columns and 24 lines. It asks for the rows
// that have room, and shortens names, never numbers.
func TestTopFitsATerminal(t *testing.T) {
	for by := int32(1); by < int32(len(quotav1.Selection_By_name)); by++ {
		s := &screen{width: usualWidth, height: usualHeight, head: newTopAsked(quotav1.Selection_By(by)).head}
		width, lines := s.room()
		s.text = topText(quotav1.Selection_By(by), many(int32(lines-besideRows)), width)
		shown := strings.Split(s.View().Content, "\n")
		if len(shown) > usualHeight {
			t.Errorf("by %d: %d lines", by, len(shown))
		}
		for _, line := range shown {
			if n := utf8.RuneCountInString(line); n > usualWidth {
				t.Errorf("by %d: %d columns: %s", by, n, line)
			}
		}
		for _, row := range shown[3 : len(shown)-besideRows+1] {
			if strings.HasSuffix(row, "…") {
				t.Errorf("by %d: a number is cut: %s", by, row)
			}
		}
		if text := s.View().Content; !strings.Contains(text, "other") || !strings.Contains(text, "6 of 9 agents") ||
			!strings.Contains(text, "limits/output") {
			t.Errorf("by %d: the end is missing:\n%s", by, text)
		}
		if t.Failed() {
			t.Log("\n" + s.View().Content)
		}
	}
}

func newTopAsked(by quotav1.Selection_By) *top {
	return &top{selection: quotav1.Selection{By: by, Order: quotav1.Selection_ADMITTED}}
}

// A text that is larger than the terminal is cut to it, and says so.
func TestScreenCutsToTheTerminal(t *testing.T) {
	s := &screen{head: func() string { return "head" }, text: strings.Repeat("0123456789\n", 9)}
	s.Update(tea.WindowSizeMsg{Width: 8, Height: 6})
	if got, want := s.View().Content, "head\n\n0123456…\n0123456…\n… 7 mor…\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	if got := s.View().Content; got != "head\n\n"+s.text {
		t.Errorf("%q", got)
	}
}
