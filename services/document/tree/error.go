package tree

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/services/wording"
)

// MostErrors bounds the mistakes of a file that are reported; more help nobody.
const MostErrors = 20

// Error is something wrong at a place in a file.
type Error struct {
	File    string
	Line    int    // from 1; 0 = the whole file
	Field   string // such as spec.queue.maxWait; "" = the whole document
	Message string
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	b.WriteString(": ")
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	return b.String() + e.Message
}

// Wrong notes a mistake.
func (r *Reader) Wrong(line int, field, format string, args ...any) {
	field = Join(r.path, field)
	r.wrong[field] = true
	parts := strings.Split(field, ".")
	for i, part := range parts {
		parts[i] = wording.Cut(part)
	}
	field = strings.Join(parts, ".")
	r.count++
	if r.count <= MostErrors {
		r.errs = append(r.errs, &Error{File: r.file, Line: line, Field: field, Message: fmt.Sprintf(format, args...)})
	}
}

// Mistakes counts the mistakes.
func (r *Reader) Mistakes() int { return r.count }

// IsWrong reports whether a mistake has been noted at a field.
func (r *Reader) IsWrong(field string) bool { return r.wrong[Join(r.path, field)] }

func lineOf(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Line
	}
	return 0
}

// Err is all that was wrong, in the order of the lines; nil if nothing was.
func (r *Reader) Err() error {
	slices.SortStableFunc(r.errs, func(a, b error) int { return cmp.Compare(lineOf(a), lineOf(b)) })
	if more := r.count - MostErrors; more > 0 {
		return errors.Join(append(r.errs, &Error{File: r.file, Message: fmt.Sprintf("and %d more mistakes", more)})...)
	}
	return errors.Join(r.errs...)
}

// What names a node in an error.
func What(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias (anchors and aliases are not read: write the value out)"
	case IsNull(n):
		return "nothing"
	case isNumber(n):
		return wording.Cut(n.Value)
	}
	return wording.Quote(n.Value)
}

// IsNull reports whether a node holds nothing.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// IsText reports whether a node is text, quoted or not.
func IsText(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" }

func isNumber(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && (n.ShortTag() == "!!int" || n.ShortTag() == "!!float")
}

// Join is the path of a field below a path; either may be "".
func Join(path, field string) string {
	if path == "" || field == "" {
		return path + field
	}
	return path + "." + field
}

var syntaxLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?s:(.*))$`)

// syntax takes the line out of what the YAML reader says of a text. Of a tab it says that some token is wrong, and may
// be a line off.
func syntax(err error, text []byte) (line int, message string) {
	found := syntaxLine.FindStringSubmatch(err.Error())
	if found == nil {
		return 0, err.Error()
	}
	line, _ = strconv.Atoi(found[1])
	line = max(line, 1)
	lines := bytes.SplitN(text, []byte("\n"), line+2)
	token := strings.Contains(found[2], "cannot start any token") || strings.Contains(found[2], "tab character")
	for _, at := range []int{line, line + 1, line - 1} {
		if token && at >= 1 && at <= len(lines) && indentedByTab(lines[at-1]) {
			return at, "the line begins with a tab: YAML takes spaces only"
		}
	}
	return line, wording.Cut(found[2])
}

// indentedByTab reports whether a tab is among the blanks that a line begins with.
func indentedByTab(line []byte) bool {
	return bytes.ContainsRune(line[:len(line)-len(bytes.TrimLeft(line, " \t"))], '\t')
}
