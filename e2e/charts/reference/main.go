// Reference writes the reference of the chart's values into values.schema.json and README.md. The source is
// values.yaml: the comment above a value is its description, its default gives its type, and a line "# @schema
// {…}" adds to its JSON Schema.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/titrate/titrate/papers/markdown"
)

// writer names this program at its part of the README.
const writer = "make generate"

func main() {
	chart := flag.String("chart", "../charts/titrate", "directory of the chart")
	flag.Parse()
	if err := run(*chart); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func run(chart string) error {
	text, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return err
	}
	values, err := parse(text)
	if err != nil {
		return fmt.Errorf("values.yaml: %w", err)
	}
	schema, err := values.schemaFile()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(chart, "values.schema.json"), schema, 0o644); err != nil {
		return err
	}
	return markdown.Update(filepath.Join(chart, "README.md"), writer, values.readme())
}
