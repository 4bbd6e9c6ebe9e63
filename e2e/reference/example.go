package main

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// example is the document with every field of one kind, as it is written.
type example struct{ name, spec *yaml.Node }

func readExample(text string) (example, error) {
	var document struct {
		Name yaml.Node `yaml:"name"`
		Spec yaml.Node `yaml:"spec"`
	}
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return example{}, err
	}
	return example{&document.Name, &document.Spec}, nil
}

// of returns the document's text for a field, as Markdown. The field is name, or a path below spec, such as
// queue.aqm. Of a list it takes the first item that has it: overrides[].rate. A field that is written as other
// fields has its examples in their rows. A field that is not in the document is an error.
func (e example) of(path string) (string, error) {
	at := e.name
	if path != "name" {
		at = below(e.spec, strings.Split(path, "."))
	}
	switch {
	case at == nil:
		return "", fmt.Errorf("%s has no field %s", fileName, path)
	case at.Kind == yaml.ScalarNode:
		return "`" + at.Value + "`", nil
	case at.Kind == yaml.SequenceNode && at.Content[0].Kind == yaml.ScalarNode:
		items := make([]string, len(at.Content))
		for i, item := range at.Content {
			items[i] = item.Value
		}
		return "`[" + strings.Join(items, ", ") + "]`", nil
	}
	return "as its fields", nil
}

// below finds the field that names lead to; nil if there is none.
func below(at *yaml.Node, names []string) *yaml.Node {
	if len(names) == 0 {
		return at
	}
	name, list := strings.CutSuffix(names[0], "[]")
	for i := 0; i+1 < len(at.Content); i += 2 {
		value := at.Content[i+1]
		switch {
		case at.Content[i].Value != name:
		case !list:
			return below(value, names[1:])
		default:
			for _, item := range value.Content {
				if found := below(item, names[1:]); found != nil {
					return found
				}
			}
		}
	}
	return nil
}
