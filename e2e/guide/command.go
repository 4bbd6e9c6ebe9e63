package guide

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Commands returns the commands of a shell text that run a program, each as its arguments. Variables are kept
// in the arguments unexpanded. Text that is not shell, such as an excerpt of a log, is skipped line by line.
func Commands(text, program string) (all [][]string) {
	find := func(n syntax.Node) bool {
		call, is := n.(*syntax.CallExpr)
		if !is {
			return true
		}
		var words []string
		for _, w := range call.Args {
			words = append(words, plain(w.Parts))
		}
		for len(words) > 0 && slices.Contains(leading, words[0]) {
			words = words[1:]
		}
		if len(words) > 0 && path.Base(words[0]) == program {
			all = append(all, words[1:])
		}
		return true
	}
	parser := syntax.NewParser(syntax.Variant(syntax.LangBash))
	file, err := parser.Parse(strings.NewReader(text), "")
	if err == nil {
		syntax.Walk(file, find)
		return all
	}
	for line := range strings.Lines(text) {
		if file, err := parser.Parse(strings.NewReader(line), ""); err == nil {
			syntax.Walk(file, find)
		}
	}
	return all
}

// leading are words before the program's name: a prompt, and a program that runs another.
var leading = []string{"$", "nohup"}

// plain is a word without its quotes. What the shell would put in it stands as it is written.
func plain(parts []syntax.WordPart) string {
	var b strings.Builder
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(unescaped(p.Value))
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			b.WriteString(plain(p.Parts))
		default:
			_ = syntax.NewPrinter().Print(&b, p) // to memory
		}
	}
	return b.String()
}

// unescaped is a text without the backslashes that quote a character.
func unescaped(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
