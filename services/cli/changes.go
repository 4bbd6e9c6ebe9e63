package cli

import (
	"fmt"
	"io"
	"strings"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/store/resource"
)

// writeChanges writes changes of resources: + created, ~ updated, - deleted, and below each
// the fields that differ.
func writeChanges(w io.Writer, changes []*quotav1.ResourceChange) error {
	var b strings.Builder
	for _, c := range changes {
		before, after := resource.Unwrap(c.GetBefore()), resource.Unwrap(c.GetAfter())
		switch {
		case before == nil:
			b.WriteString("+ " + c.GetName() + "\n")
		case after == nil:
			b.WriteString("- " + c.GetName() + "\n")
		default:
			b.WriteString("~ " + c.GetName() + "\n")
		}
		for _, line := range differences(before, after) {
			b.WriteString("    " + strings.Map(command.Printable, line) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// differences are lines about the fields that differ; all fields where one is nil.
func differences(before, after resource.Message) (lines []string) {
	was, is := fieldsOf(before), fieldsOf(after)
	old := map[string]string{}
	for _, f := range was {
		old[f.Path] = f.Value
	}
	for _, f := range is {
		value, had := old[f.Path]
		delete(old, f.Path)
		switch {
		case before == nil:
			lines = append(lines, f.Path+": "+f.Value)
		case !had:
			lines = append(lines, fmt.Sprintf("%s: unset -> %s", f.Path, f.Value))
		case value != f.Value:
			lines = append(lines, fmt.Sprintf("%s: %s -> %s", f.Path, value, f.Value))
		}
	}
	for _, f := range was {
		switch _, gone := old[f.Path]; {
		case after == nil:
			lines = append(lines, f.Path+": "+f.Value)
		case gone:
			lines = append(lines, fmt.Sprintf("%s: %s -> unset", f.Path, f.Value))
		}
	}
	return lines
}

// fieldsOf are the fields of a resource and the set that owns it; none of nil.
func fieldsOf(m resource.Message) []document.Field {
	if m == nil {
		return nil
	}
	fields := document.Fields(m)
	if m.GetSet() != "" {
		fields = append(fields, document.Field{Path: "(set)", Value: m.GetSet()})
	}
	return fields
}
