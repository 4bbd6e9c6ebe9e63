package main

import (
	"regexp"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// comments are those of a .proto by what they stand at, such as Pool.capacity or Mode.SHADOW.
type comments map[string]string

var (
	opened  = regexp.MustCompile(`^(?:message|enum) (\w+) \{`)
	member  = regexp.MustCompile(`^  (?:repeated |optional )?(?:[\w.]+ )?(\w+) = \d+\b`)
	trailed = regexp.MustCompile(`; // (.*)$`)
)

// readComments reads the comments above messages, enums and their members, and those behind members. It knows the
// form that buf's formatter gives a file without nested types.
func readComments(source string) comments {
	all := comments{}
	var above []string
	outer := ""
	for line := range strings.Lines(source) {
		line = strings.TrimRight(line, "\n")
		if text, is := strings.CutPrefix(strings.TrimSpace(line), "//"); is {
			above = append(above, strings.TrimSpace(text))
			continue
		}
		name := ""
		if found := opened.FindStringSubmatch(line); found != nil {
			outer, name = found[1], found[1]
		} else if found := member.FindStringSubmatch(line); found != nil {
			name = outer + "." + found[1]
		}
		if found := trailed.FindStringSubmatch(line); found != nil {
			above = append(above, found[1])
		}
		if name != "" {
			all[name] = strings.Join(above, " ")
		}
		above = nil
	}
	return all
}

// of is the comment of a field, a message, an enum or one of its values.
func (c comments) of(d protoreflect.Descriptor) string {
	switch d := d.(type) {
	case protoreflect.EnumValueDescriptor: // its full name is beside the enum, not below it
		return c[string(d.Parent().Name()+"."+d.Name())]
	case protoreflect.FieldDescriptor:
		return c[string(d.Parent().Name()+"."+d.Name())]
	}
	return c[string(d.Name())]
}

// said is a comment taken apart: sentences that begin with Default, Range or Unit say just that.
type said struct{ meaning, standard, span, unit string }

func (c comments) said(d protoreflect.FieldDescriptor) said {
	var s said
	var meaning []string
	for _, sentence := range sentences(c.of(d)) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(sentence, "."), " ")
		switch word {
		case "Default":
			s.standard = rest
		case "Range":
			s.span = rest
		case "Unit:":
			s.unit = rest
		default:
			meaning = append(meaning, sentence)
		}
	}
	s.meaning = strings.Join(meaning, " ")
	return s
}

var sentenceEnd = regexp.MustCompile(`\. ([A-Z])`)

func sentences(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(sentenceEnd.ReplaceAllString(text, ".\n$1"), "\n")
}
