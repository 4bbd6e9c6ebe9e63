package view

import (
	"context"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Source gives the present sample. It is called from one goroutine.
type Source func() *Sample

// How often a screen is redrawn and a line printed.
const (
	redraw = 500 * time.Millisecond
	reline = 2 * time.Second
)

// Run shows samples until ctx ends. interrupt is called when the user asks, at
// the keyboard of a terminal, to stop.
func Run(ctx context.Context, out io.Writer, terminal bool, source Source, interrupt func()) {
	if terminal {
		screen(ctx, out, source, interrupt)
		return
	}
	lines(ctx, out, source)
}

// lines prints a line now and then, and each note once.
func lines(ctx context.Context, out io.Writer, source Source) {
	ticker := time.NewTicker(reline)
	defer ticker.Stop()
	noted := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s := source()
		for ; noted < len(s.Notes); noted++ {
			fmt.Fprintln(out, s.Notes[noted].Line())
		}
		fmt.Fprintln(out, Line(s))
	}
}

// screen runs the live table. Without a usable terminal (no input, say) the run continues without a view.
func screen(ctx context.Context, out io.Writer, source Source, interrupt func()) {
	p := tea.NewProgram(&model{source: source, interrupt: interrupt, sample: source(), width: width, height: height},
		tea.WithContext(ctx), tea.WithOutput(out), tea.WithoutSignalHandler())
	if _, err := p.Run(); err != nil && ctx.Err() == nil {
		fmt.Fprintf(out, "no live table (%v), going on without\n", err)
		<-ctx.Done()
	}
}

type model struct {
	source    Source
	interrupt func()
	sample    *Sample
	past      Past

	width, height int // of the terminal, in characters
}

type tick time.Time

func next() tea.Cmd { return tea.Tick(redraw, func(t time.Time) tea.Msg { return tick(t) }) }

// Init asks for the first tick.
func (m *model) Init() tea.Cmd { return next() }

// Update takes a new sample at a tick and obeys Ctrl-C and q.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tick:
		m.sample = m.source()
		m.past.Add(m.sample)
		return m, next()
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		if k := msg.String(); k == "ctrl+c" || k == "q" {
			m.interrupt()
			return m, tea.Quit
		}
	}
	return m, nil
}

// View is the last sample on the whole screen: nothing of the terminal's own text stays above.
func (m *model) View() tea.View {
	view := tea.NewView(Screen(m.sample, &m.past, m.width, m.height))
	view.AltScreen = true
	return view
}
