package command

import (
	"os"

	"golang.org/x/term"
)

// Terminal reports whether a file is a terminal: what is written to it is seen by a person, and may be drawn over.
func Terminal(file any) bool {
	f, ok := file.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
