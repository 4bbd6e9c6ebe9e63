package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"strconv"
	"unicode/utf16"

	"go.yaml.in/yaml/v3"
)

// Roots reads YAML, and JSON that plain YAML would refuse: the text between two --- lines each, as far as the syntax is
// right.
func (r *Reader) Roots(data []byte) []*yaml.Node {
	data = asYAML(data)
	all, err := decode(data)
	if err != nil {
		if spaced := withoutTabs(data); !bytes.Equal(spaced, data) {
			data = spaced
			all, err = decode(data)
		}
	}
	if err != nil {
		line, message := syntax(err, data)
		r.Wrong(line+r.before, "", "%s", message)
		r.broken = true
	}
	shift(all, r.before)
	return all
}

// shift moves nodes down by so many lines.
func shift(all []*yaml.Node, lines int) {
	for _, n := range all {
		if n.Line += lines; lines > 0 {
			shift(n.Content, lines)
		}
	}
}

// pieceBytes is about how much of a text is read at a time, one piece on each core: enough that the start of a piece
// costs nothing.
const pieceBytes = 256 << 10

// Piece is a part of a file: whole documents, and the reader that takes what is wrong in it.
type Piece struct {
	*Reader
	Data []byte
}

// Pieces cuts a text of many documents at --- lines, so that its pieces can be read beside each other. [Reader.Join]
// puts what is wrong in them together.
func (r *Reader) Pieces(data []byte) (all []Piece) {
	directives := bytes.HasPrefix(data, []byte{'%'}) || bytes.Contains(data, []byte("\n%"))
	for line := 0; len(data) > 0 || all == nil; {
		end := len(data)
		if at := pieceBytes; at < len(data) && !directives {
			if i := marker.FindIndex(data[at:]); i != nil {
				end = at + i[0] + 1
			}
		}
		one := &Reader{mistakes: &mistakes{file: r.file, wrong: map[string]bool{}, before: line}, path: r.path}
		all = append(all, Piece{one, data[:end]})
		line += bytes.Count(data[:end], []byte{'\n'})
		data = data[end:]
	}
	return all
}

// marker is the line between two documents. No text in a document may begin a line with it.
var marker = regexp.MustCompile(`\n---(?:[ \t\r\n]|$)`)

// Join takes the mistakes in the pieces of a text, also mistakes that are noted later. It returns the number of pieces
// that count: what stands behind a piece that is no YAML is not read.
func (r *Reader) Join(pieces []Piece) int {
	for i, p := range pieces {
		r.errs = append(r.errs, p.errs[:min(len(p.errs), max(0, MostErrors-r.count))]...)
		r.count += p.count
		maps.Copy(r.wrong, p.wrong)
		broken := p.broken
		if p.mistakes = r.mistakes; broken {
			return i + 1
		}
	}
	return len(pieces)
}

func decode(data []byte) (all []*yaml.Node, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		root := new(yaml.Node)
		switch err := decoder.Decode(root); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return all, err
		}
		all = append(all, root.Content...)
	}
}

var (
	blankTab = regexp.MustCompile(`(?m)^[ \t]*\t[ \t]*(#.*)?\r?$`)
	block    = regexp.MustCompile(`(?m)[|>][-+0-9]*[ \t]*(#.*)?\r?$`)
)

// withoutTabs puts spaces in the place of tabs in lines that have nothing else, or a comment behind them. These lines
// say nothing in YAML, and the YAML reader refuses some of them. In a block of text they would say something, so a text
// that may have one is left alone.
func withoutTabs(data []byte) []byte {
	if block.Match(data) {
		return data
	}
	return blankTab.ReplaceAllFunc(data, func(line []byte) []byte {
		comment := line[len(line)-len(bytes.TrimLeft(line, " \t")):]
		return append(bytes.Repeat([]byte{' '}, len(line)-len(comment)), comment...)
	})
}

var escaped = regexp.MustCompile(`\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}`)

// asYAML rewrites what only JSON has: \ud83d\ude00, which in YAML is \U0001f600, and tabs between tokens, of which YAML
// refuses some. Lines stay where they are. Anything but JSON is left alone.
func asYAML(data []byte) []byte {
	if !json.Valid(data) {
		return data
	}
	data = bytes.ReplaceAll(data, []byte{'\t'}, []byte{' '})
	return escaped.ReplaceAllFunc(data, func(found []byte) []byte {
		if len(found) == 2 {
			return found
		}
		high, _ := strconv.ParseUint(string(found[2:6]), 16, 32)
		low, _ := strconv.ParseUint(string(found[8:12]), 16, 32)
		return fmt.Appendf(nil, `\U%08x`, utf16.DecodeRune(rune(high), rune(low)))
	})
}
