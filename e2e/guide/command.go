package guide

import (
	"path"
	"slices"
	"strings"
)

// Commands returns the commands of a shell text that run a program, each as its arguments. It knows as much of the
// shell's grammar as documents use: quotes, comments, pipes, lists, $(…), here-documents, continued lines. A variable
// stands in the arguments as it is written.
func Commands(text, program string) (all [][]string) {
	s := splitter{rest: text}
	for s.rest != "" {
		words := s.command()
		for len(words) > 0 && before(words[0]) {
			words = words[1:]
		}
		if len(words) > 0 && path.Base(words[0]) == program {
			all = append(all, words[1:])
		}
	}
	return all
}

var leading = []string{"until", "while", "if", "then", "else", "do", "!", "time", "$", "nohup", "{"}

// before reports whether a word may stand before the program's name.
func before(word string) bool {
	name, _, assigns := strings.Cut(word, "=")
	return slices.Contains(leading, word) || assigns && !strings.ContainsAny(name, "/-.")
}

// splitter takes commands off a text.
type splitter struct {
	rest string
	ends []string // what ends the here-documents that begin on this line
}

// command returns the words up to the next separator.
func (s *splitter) command() (words []string) {
	for s.rest != "" {
		switch c := s.rest[0]; {
		case strings.HasPrefix(s.rest, "\\\n"):
			s.rest = s.rest[2:]
		case c == ' ' || c == '\t':
			s.rest = s.rest[1:]
		case c == '\n':
			s.rest = s.rest[1:]
			s.skipHere()
			return words
		case strings.HasPrefix(s.rest, "$("):
			s.rest = s.rest[2:]
			return words
		case strings.IndexByte(";|&()", c) >= 0:
			s.rest = s.rest[1:]
			return words
		case c == '#':
			_, s.rest, _ = cutBefore(s.rest, "\n")
		case c == '<' || c == '>':
			s.redirect()
		default:
			word := s.word()
			if s.rest != "" && (s.rest[0] == '>' || s.rest[0] == '<') && isNumber(word) {
				continue // 2> is no argument
			}
			words = append(words, word)
		}
	}
	return words
}

// redirect skips a redirection, and notes a here-document.
func (s *splitter) redirect() {
	here := strings.HasPrefix(s.rest, "<<")
	s.rest = strings.TrimLeft(s.rest, "<>&-")
	s.rest = strings.TrimLeft(s.rest, " ")
	end := s.word()
	if here {
		s.ends = append(s.ends, end)
	}
}

func (s *splitter) skipHere() {
	for _, end := range s.ends {
		_, rest, _ := strings.Cut("\n"+s.rest, "\n"+end+"\n")
		s.rest = rest
	}
	s.ends = nil
}

// word takes a word, without its quotes.
func (s *splitter) word() string {
	var b strings.Builder
	for s.rest != "" {
		c := s.rest[0]
		switch {
		case c == '\'':
			text, rest, _ := strings.Cut(s.rest[1:], "'")
			b.WriteString(text)
			s.rest = rest
		case c == '"':
			s.quoted(&b)
		case c == '\\' && len(s.rest) > 1 && s.rest[1] != '\n':
			b.WriteByte(s.rest[1])
			s.rest = s.rest[2:]
		case strings.IndexByte(" \t\n;|&()<>", c) >= 0 || c == '\\' || strings.HasPrefix(s.rest, "$("):
			return b.String()
		default:
			b.WriteByte(c)
			s.rest = s.rest[1:]
		}
	}
	return b.String()
}

// quoted takes what stands in double quotes.
func (s *splitter) quoted(b *strings.Builder) {
	s.rest = s.rest[1:]
	for s.rest != "" {
		c := s.rest[0]
		s.rest = s.rest[1:]
		if c == '"' {
			return
		}
		if c == '\\' && s.rest != "" {
			c, s.rest = s.rest[0], s.rest[1:]
		}
		b.WriteByte(c)
	}
}

// cutBefore is strings.Cut that leaves the separator with what comes after.
func cutBefore(s, sep string) (before, after string, found bool) {
	if i := strings.Index(s, sep); i >= 0 {
		return s[:i], s[i:], true
	}
	return s, "", false
}

func isNumber(word string) bool { return word != "" && strings.Trim(word, "0123456789") == "" }
