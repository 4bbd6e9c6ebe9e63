package cli

import (
	"context"
	"io"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"
)

// terminal reports whether what is written is seen by a person, and may be drawn over.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// screen is a text at a terminal that is drawn anew until the user ends it.
type screen struct {
	every time.Duration // from an answer to the next question
	// ask returns the question to ask now; the question is asked beside the screen's loop.
	ask  func() func() (string, error)
	head func() string // the line above the text
	obey func(key string)

	text string
}

// run draws until q, or until ctx ends.
func (s *screen) run(ctx context.Context, out io.Writer) error {
	_, err := tea.NewProgram(s, tea.WithContext(ctx), tea.WithOutput(out)).Run()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

type (
	answered string   // a text
	again    struct{} // asks for the next
)

// Init asks for the first text.
func (s *screen) Init() tea.Cmd { return s.fetch() }

func (s *screen) fetch() tea.Cmd {
	question := s.ask()
	return func() tea.Msg {
		text, err := question()
		if err != nil {
			return answered(worded(err).Error() + "\n")
		}
		return answered(text)
	}
}

// Update shows a text and asks for the next, and obeys keys.
func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case answered:
		s.text = string(msg)
		return s, tea.Tick(s.every, func(time.Time) tea.Msg { return again{} })
	case again:
		return s, s.fetch()
	case tea.KeyPressMsg:
		if k := msg.String(); k == "q" || k == "ctrl+c" {
			return s, tea.Quit
		}
		s.obey(msg.String())
	}
	return s, nil
}

// View is the last text under its head.
func (s *screen) View() tea.View { return tea.NewView(s.head() + "\n\n" + s.text) }

// pause waits, and reports whether ctx still runs.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
