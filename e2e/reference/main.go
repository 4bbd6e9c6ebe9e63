// Reference writes the generated parts of the documents: docs/configuration.md, every field of the resources that
// titrate apply takes, and docs/cli.md, every command of titrate and titrate-lab. A field's meaning is its comment in
// the API's .proto, and its bounds are the rule that the server checks. Its default is the value that the server fills
// in, and its example is the text for it in the file examples.yaml, here. With -install it writes manual pages and
// shell completions for packages instead.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	lab "github.com/titrate/titrate/lab/cli"
	"github.com/titrate/titrate/papers/markdown"
	"github.com/titrate/titrate/services/cli"
)

// writer names the command that writes the documents' parts.
const writer = "make generate"

// resourcesProto has the resources, relative to the top of the repository.
const resourcesProto = "proto/titrate/quota/v1alpha1/resources.proto"

func main() {
	top := flag.String("top", "..", "top of the repository")
	into := flag.String("install", "", "directory to write manual pages and completions into, not the documents")
	flag.Parse()
	write := func() error { return run(*top, filepath.Join(*top, "docs")) }
	if *into != "" {
		write = func() error { return install(cli.Root(), *into) }
	}
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

// run writes the parts of the documents in a directory.
func run(top, docs string) error {
	source, err := os.ReadFile(filepath.Join(top, resourcesProto))
	if err != nil {
		return err
	}
	said, err := readComments(resourcesProto, string(source))
	if err != nil {
		return err
	}
	fields, err := resources(said)
	if err != nil {
		return fmt.Errorf("%s: %w", resourcesProto, err)
	}
	if err := markdown.Update(filepath.Join(docs, "configuration.md"), writer, fields); err != nil {
		return err
	}
	return markdown.Update(filepath.Join(docs, "cli.md"), writer, commands(cli.Root())+commands(lab.Root()))
}
