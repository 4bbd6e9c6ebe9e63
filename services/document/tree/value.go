package tree

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/services/wording"
)

// Text reads a name or another short text of printable characters that must be
// there; line is where to point at if it is not. "" if it is wrong.
func (r *Reader) Text(n *yaml.Node, line int, path string) string {
	switch {
	case n == nil:
		r.Wrong(line, path, "missing; want text")
	case !IsText(n):
		r.Wrong(n.Line, path, "want text, in quotes if it looks like a number, found %s", What(n))
	case n.Value == "" || strings.ContainsFunc(n.Value, func(c rune) bool { return !unicode.IsPrint(c) }):
		r.Wrong(n.Line, path, "want a name of printable characters, found %s", What(n))
	default:
		return n.Value
	}
	return ""
}

// Choice reads one of the options; the first is the default, also of what is wrong.
func (r *Reader) Choice(n *yaml.Node, path string, options ...string) string {
	if n == nil {
		return options[0]
	}
	if !IsText(n) || !slices.Contains(options, n.Value) {
		r.Wrong(n.Line, path, "want %s, found %s", strings.Join(options, " or "), What(n))
		return options[0]
	}
	return n.Value
}

// Flag reads true or false; absent, it is false.
func (r *Reader) Flag(n *yaml.Node, path string) bool {
	if n == nil {
		return false
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
		r.Wrong(n.Line, path, "want true or false, found %s", What(n))
		return false
	}
	return strings.EqualFold(n.Value, "true")
}

// Span is a range of numbers, both ends within.
type Span struct {
	Least, Most float64
	Zero        bool   // 0 is allowed too
	Or          string // what else could be done, for the error
}

func (s Span) String() string {
	if s.Zero && s.Least > 0 {
		return fmt.Sprintf("0 or %s to %s", wording.Number(s.Least), wording.Number(s.Most))
	}
	return fmt.Sprintf("%s to %s", wording.Number(s.Least), wording.Number(s.Most))
}

var decimal = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][-+]?[0-9]+)?$`)

var octal = regexp.MustCompile(`^[-+]?0[0-9]+$`)

// IsAmbiguous reports whether a number means one thing in YAML 1.1 and another one in YAML 1.2.
func IsAmbiguous(number string) bool { return octal.MatchString(number) }

// Unambiguous says what to write instead of an ambiguous number.
const Unambiguous = "a number without a 0 in front (010 is 8 in YAML 1.1 and 10 in YAML 1.2)"

// Number reads a number within the span; absent or wrong, it is the fallback.
func (r *Reader) Number(n *yaml.Node, path string, fallback float64, in Span) float64 {
	if n == nil {
		return fallback
	}
	if !isNumber(n) {
		r.Wrong(n.Line, path, "want a number, found %s", What(n))
		return fallback
	}
	if IsAmbiguous(n.Value) {
		r.Wrong(n.Line, path, "want %s, found %s", Unambiguous, What(n))
		return fallback
	}
	v, err := strconv.ParseFloat(n.Value, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || !decimal.MatchString(n.Value) {
		r.Wrong(n.Line, path, "want a finite decimal number%s, found %s", in.Or, What(n))
		return fallback
	}
	if !(v >= in.Least && v <= in.Most || in.Zero && v == 0) {
		r.Wrong(n.Line, path, "want %s%s, found %s", in, in.Or, What(n))
		return fallback
	}
	return v + 0 // -0 is 0
}

// Count reads a whole number from least to most; absent or wrong, it is the fallback.
func (r *Reader) Count(n *yaml.Node, path string, fallback, least, most int) int {
	before := r.count
	v := r.Number(n, path, float64(fallback), Span{Least: float64(least), Most: float64(most)})
	if v != math.Trunc(v) && r.count == before {
		r.Wrong(n.Line, path, "want a whole number, found %s", What(n))
		return fallback
	}
	return int(v)
}

// Duration reads a span of time with its unit, such as 50ms or 1m30s, from least to
// most; 0 needs no unit. Absent or wrong, it is the fallback.
func (r *Reader) Duration(n *yaml.Node, path string, fallback, least, most time.Duration) time.Duration {
	if n == nil {
		return fallback
	}
	d, err := time.ParseDuration(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode || err != nil || isNumber(n) && d != 0:
		r.Wrong(n.Line, path, "want a time with its unit, such as 50ms, 2s or 1m30s, found %s", What(n))
	case d < least || d > most:
		r.Wrong(n.Line, path, "want %v to %v, found %s", least, most, n.Value)
	default:
		return d
	}
	return fallback
}
