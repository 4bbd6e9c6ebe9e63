package view

import (
	"context"
	"fmt"
	"html"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
)

// Film keeps the live table as it was at equal steps of time, and writes it as an animated SVG. The film plays
// in a browser and in a README, without a script; for readers who prefer reduced motion it shows its last
// frame. Equal lines are stored once.
type Film struct {
	frames [][]string // lines of each frame
}

// Frames are taken every two seconds of the run and shown for half a second.
const (
	filmStep  = 2 * time.Second
	filmShown = 500 * time.Millisecond
)

// Record takes frames until ctx ends.
func (f *Film) Record(ctx context.Context, source Source) {
	ticker := time.NewTicker(filmStep)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			f.Take(source())
		}
	}
}

// Take adds a frame.
func (f *Film) Take(s *Sample) {
	f.frames = append(f.frames, strings.Split(strings.TrimRight(Table(s), "\n"), "\n"))
}

// The size of a character and the border, in pixels.
const (
	charWidth  = 8
	lineHeight = 17
	filmBorder = 14
)

// WriteSVG writes the film.
func (f *Film) WriteSVG(w io.Writer) error {
	columns, rows := 1, 1
	for _, lines := range f.frames {
		rows = max(rows, len(lines))
		for _, line := range lines {
			columns = max(columns, ansi.StringWidth(line))
		}
	}
	width, height := columns*charWidth+2*filmBorder, rows*lineHeight+2*filmBorder
	n := max(len(f.frames), 1)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" role="img"
  viewBox="0 0 %d %d" width="%[1]d" height="%[2]d">
<title>the live table of titrate-lab dev</title>
<style>
text{font:13px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#d0d4da;white-space:pre}
.b{font-weight:bold;fill:#fff}.f{fill:#6b7480}.g{fill:#5fb878}.r{fill:#e5655e}.y{fill:#e0b34c}
#film{animation:play %[3]gs steps(%[4]d) infinite}
@keyframes play{to{transform:translateX(-%[5]dpx)}}
@media(prefers-reduced-motion:reduce){#film{animation:none;transform:translateX(-%[6]dpx)}}
</style>
<rect width="100%%" height="100%%" rx="8" fill="#16191d"/>
<defs>
`, width, height, (time.Duration(n) * filmShown).Seconds(), n, n*width, (n-1)*width)
	ids := map[string]int{}
	for _, lines := range f.frames {
		for _, line := range lines {
			if _, known := ids[line]; known || strings.TrimSpace(ansi.Strip(line)) == "" {
				continue
			}
			ids[line] = len(ids)
			fmt.Fprintf(&b, "<text xml:space=\"preserve\" id=\"l%d\">%s</text>\n", ids[line], spans(line))
		}
	}
	b.WriteString("</defs>\n<g id=\"film\">\n")
	for i, lines := range f.frames {
		for j, line := range lines {
			if id, there := ids[line]; there {
				fmt.Fprintf(&b, "<use href=\"#l%d\" x=\"%d\" y=\"%d\"/>\n", id, i*width+filmBorder,
					filmBorder+lineHeight*(j+1)-4)
			}
		}
	}
	b.WriteString("</g>\n</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// spans turns a line of text with colours into tspan elements, each at its column.
func spans(line string) string {
	var out, run strings.Builder
	class, column, from := "", 0, 0
	flush := func() {
		if text := run.String(); strings.TrimSpace(text) != "" {
			fmt.Fprintf(&out, `<tspan x="%d" textLength="%d"`, from*charWidth, (column-from)*charWidth)
			if class != "" {
				fmt.Fprintf(&out, ` class="%s"`, class)
			}
			out.WriteString(">" + html.EscapeString(text) + "</tspan>")
		}
		run.Reset()
		from = column
	}
	var state byte
	parser := ansi.NewParser()
	for len(line) > 0 {
		sequence, width, n, next := ansi.DecodeSequence(line, state, parser)
		if parser.Command() == 'm' && width == 0 && strings.HasPrefix(sequence, "\x1b[") {
			flush()
			class = style(class, parser.Params())
		} else if width > 0 {
			run.WriteString(sequence)
			column += width
		}
		line, state = line[n:], next
	}
	flush()
	return out.String()
}

// style is the class of text after a sequence that selects graphics.
func style(class string, parameters ansi.Params) string {
	if len(parameters) == 0 {
		return ""
	}
	for i := range parameters {
		value, _, _ := parameters.Param(i, 0)
		switch value {
		case 1:
			class = "b"
		case 2:
			class = "f"
		case 31:
			class = "r"
		case 32:
			class = "g"
		case 33:
			class = "y"
		case 0, 22, 39:
			class = ""
		}
	}
	return class
}
