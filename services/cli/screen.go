package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// screen is a text at a terminal that is redrawn until the user ends it.
type screen struct {
	every time.Duration // from an answer to the next question
	// ask returns the question to ask now; it is asked outside of the screen's loop.
	ask  func() func() (string, error)
	head func() string // the line above the text
	obey func(key string)

	text          string
	width, height int // of the terminal, in characters
}

// The size of a terminal that does not say its own.
const (
	usualWidth  = 80
	usualHeight = 24
)

// around is the lines of the screen that are not the text's: the head, the one below it, and the cursor's.
const around = 3

// room is the size of text that the screen shows whole.
func (s *screen) room() (width, lines int) { return s.width, max(s.height-around, 1) }

// run draws until q, or until ctx ends.
func (s *screen) run(ctx context.Context, out io.Writer) error {
	s.width, s.height = usualWidth, usualHeight
	if f, ok := out.(*os.File); ok {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 && height > 0 {
			s.width, s.height = width, height
		}
	}
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
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
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

// View is the last text under its head, as much of it as the terminal shows. A longer line ends in "…", and the last
// line says how many more there are.
func (s *screen) View() tea.View {
	width, room := s.room()
	lines := strings.Split(strings.TrimSuffix(s.text, "\n"), "\n")
	if more := len(lines) - room; more > 0 {
		lines = append(lines[:room-1], fmt.Sprintf("… %d more lines: the terminal is too low", more+1))
	}
	lines = append([]string{s.head(), ""}, lines...)
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], width, "…")
	}
	view := tea.NewView(strings.Join(lines, "\n") + "\n")
	view.AltScreen = true // nothing of the terminal's own text stays above
	return view
}
