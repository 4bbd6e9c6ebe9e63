package view

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
)

// full is a moment of the demo, with its tenants, clients and gateways, at which every line is at its longest.
// hops is one of the phase that has more tenants and clients, and comes before the first fault.
func full() *Sample {
	s := &Sample{
		Phase: "partition", Elapsed: 95 * time.Second, Total: 10 * time.Minute, PhaseLeft: 10 * time.Second,
		Pool: Pool{Capacity: 300, Wants: 1615, Gets: 299, Price: .0254, Known: true}, Failed: 12345,
	}
	for _, name := range []string{"acme", "bolt", "core", "dart"} {
		s.Tenants = append(s.Tenants, Tenant{Name: name, Weight: 1.5, Wants: 1000, Gets: 139.4, FairShare: 139.5,
			WaitMs: 1051, Marks: 300, Rejects: 1260, State: strings.Repeat("s", StateWidth)})
	}
	for _, name := range []string{"global", "small"} {
		s.Clients = append(s.Clients, Client{Name: name, Rate: 100, Burst: 10, Wants: 1000, Gets: 100, Rejects: 900})
	}
	for _, name := range []string{"gw-1", "gw-2", "gw-3"} {
		s.Gateways = append(s.Gateways, Gateway{Name: name, Wants: 1180, Gets: 190, Rejects: 990, State: "agent cut off"})
	}
	for range 6 {
		s.Notes = append(s.Notes, Note{At: 98 * time.Second, Text: strings.Repeat("what was done to the system ", 5)})
	}
	return s
}

func hops() *Sample {
	s := full()
	s.Tenants = append(s.Tenants, s.Tenants[0])
	for _, name := range []string{"exact", "local", "within"} {
		s.Clients = append(s.Clients, Client{Name: name, Rate: 100, Burst: 10, Wants: 1000, Gets: 100, Rejects: 900,
			Exact: true})
	}
	s.Notes = nil
	return s
}

// The live table fits a terminal of 80 columns and 24 lines, the last of which stays free for the cursor.
func TestTheTableFitsATerminal(t *testing.T) {
	for _, s := range []*Sample{full(), hops()} {
		lines := strings.Split(strings.TrimSuffix(Table(s), "\n"), "\n")
		if len(lines) > height-1 {
			t.Errorf("%d lines", len(lines))
		}
		for _, line := range lines {
			if note := strings.Contains(line, "98s *"); !note && strings.Contains(line, "…") {
				t.Errorf("cut off: %s", ansi.Strip(line))
			}
			if n := ansi.StringWidth(line); n > width {
				t.Errorf("%d columns: %s", n, ansi.Strip(line))
			}
		}
		if t.Failed() {
			t.Log("\n" + ansi.Strip(Table(s)))
		}
	}
}

// Notes give way to tables that are longer than the demo's.
func TestNotesHaveTheRest(t *testing.T) {
	for more, want := range map[int]int{0: 4, 1: 3, 2: 2, 3: 1, 9: 1} {
		s := full()
		for range more {
			s.Gateways = append(s.Gateways, s.Gateways[0])
		}
		if n := strings.Count(Table(s), "98s *"); n != want {
			t.Errorf("%d notes beside %d gateways, want %d", n, len(s.Gateways), want)
		}
	}
}

// A larger terminal is used: all notes, the last minute and bars. No line is longer than the terminal, at any
// size.
func TestAWideTerminalIsUsed(t *testing.T) {
	var past Past
	s := full()
	for i := range 40 {
		s.Elapsed = time.Duration(i) * pastStep
		past.Add(s)
	}
	text := ansi.Strip(Screen(s, &past, 200, 50))
	for _, want := range []string{"gets, last minute", strings.Repeat("█", pastLength) + " ", "gets █ of wants ░",
		"███░░░░░░░░░░░░░░░░░░░░░"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "98s *"); n != len(s.Notes) {
		t.Errorf("%d notes", n)
	}
	for wide := 60; wide < 220; wide += 7 {
		for line := range strings.Lines(Screen(s, &past, wide, 50)) {
			if n := ansi.StringWidth(strings.TrimSuffix(line, "\n")); n > wide {
				t.Fatalf("%d columns in a terminal of %d: %s", n, wide, ansi.Strip(line))
			}
		}
	}
}
