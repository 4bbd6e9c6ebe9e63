package main

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/papers/markdown"
)

// value is one key of values.yaml.
type value struct {
	name, description string
	schema            map[string]any // of its "@schema" line
	kind              string         // JSON Schema's type
	text              string         // the default, as it is written; "" of a section
	children          []*value       // of a section: a mapping that is written over several lines
}

// parse reads values.yaml. Each key needs a description.
func parse(text []byte) (*value, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	if len(document.Content) != 1 {
		return nil, errors.New("want one document with a mapping")
	}
	root := &value{kind: "object"}
	return root, root.read(document.Content[0], strings.Split(string(text), "\n"))
}

// read makes the children of a section.
func (v *value) read(mapping *yaml.Node, lines []string) error {
	for i := 0; i < len(mapping.Content); i += 2 {
		key, node := mapping.Content[i], mapping.Content[i+1]
		child := &value{name: key.Value, kind: kinds[node.Tag]}
		if child.kind == "" {
			return fmt.Errorf("line %d: %s: a default of type %s", key.Line, key.Value, node.Tag)
		}
		if err := child.comment(key.Line, lines); err != nil {
			return fmt.Errorf("line %d: %s: %w", key.Line, key.Value, err)
		}
		v.children = append(v.children, child)
		if node.Kind == yaml.MappingNode && node.Style&yaml.FlowStyle == 0 {
			if err := child.read(node, lines); err != nil {
				return err
			}
			continue
		}
		_, child.text, _ = strings.Cut(strings.TrimSpace(lines[key.Line-1]), ": ")
	}
	return nil
}

var kinds = map[string]string{"!!map": "object", "!!seq": "array", "!!str": "string", "!!int": "integer",
	"!!float": "number", "!!bool": "boolean"}

// comment reads the comment that ends above a line, counted from 1.
func (v *value) comment(line int, lines []string) error {
	first := line - 1
	for first > 0 && strings.HasPrefix(strings.TrimSpace(lines[first-1]), "#") {
		first--
	}
	var words []string
	for _, l := range lines[first : line-1] {
		l = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(l), "#"))
		if schema, is := strings.CutPrefix(l, "@schema "); is {
			if err := yaml.Unmarshal([]byte(schema), &v.schema); err != nil {
				return fmt.Errorf("@schema: %w", err)
			}
			continue
		}
		words = append(words, l)
	}
	if v.description = strings.Join(words, " "); v.description == "" {
		return errors.New("no comment above it says what it is")
	}
	return nil
}

// readme is a section with a table for each key at the top.
func (v *value) readme() string {
	var out strings.Builder
	head := []string{"value", "default", "what it is"}
	var single [][]string
	for _, section := range v.children {
		if section.children == nil {
			single = append(single, section.row(section.name))
			continue
		}
		fmt.Fprintf(&out, "### %s\n\n%s\n\n%s\n", section.name, section.description,
			markdown.Table(head, section.rows(section.name)))
	}
	if single != nil {
		fmt.Fprintf(&out, "### Others\n\n%s\n", markdown.Table(head, single))
	}
	return out.String()
}

func (v *value) row(path string) []string {
	return []string{"`" + path + "`", "`" + v.text + "`", v.description}
}

func (v *value) rows(path string) (all [][]string) {
	for _, c := range v.children {
		below := path + "." + c.name
		if c.children == nil {
			all = append(all, c.row(below))
			continue
		}
		all = append(all, []string{"`" + below + "`", "", c.description})
		all = append(all, c.rows(below)...)
	}
	return all
}
