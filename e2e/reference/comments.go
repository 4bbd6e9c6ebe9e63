package main

import (
	"context"
	"regexp"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// comments are the comments in a .proto.
type comments struct{ linker.File }

// readComments compiles the source of a .proto; what it imports is linked into this program.
func readComments(path, source string) (comments, error) {
	compiler := protocompile.Compiler{SourceInfoMode: protocompile.SourceInfoStandard,
		Resolver: protocompile.CompositeResolver{
			&protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{path: source})},
			protocompile.ResolverFunc(func(path string) (protocompile.SearchResult, error) {
				file, err := protoregistry.GlobalFiles.FindFileByPath(path)
				return protocompile.SearchResult{Desc: file}, err
			})}}
	files, err := compiler.Compile(context.Background(), path)
	if err != nil {
		return comments{}, err
	}
	return comments{files[0]}, nil
}

// of is the comment above and behind a field, a message, an enum or one of its values; empty if there is none.
func (c comments) of(name protoreflect.FullName) string {
	d := c.FindDescriptorByName(name)
	if d == nil {
		return ""
	}
	at := c.SourceLocations().ByDescriptor(d)
	return strings.Join(strings.Fields(at.LeadingComments+at.TrailingComments), " ")
}

// said is a comment taken apart: sentences that begin with Default, Range or Unit say just that.
type said struct{ meaning, standard, span, unit string }

func (c comments) said(d protoreflect.FieldDescriptor) said {
	var s said
	var meaning []string
	for _, sentence := range sentences(c.of(d.FullName())) {
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
