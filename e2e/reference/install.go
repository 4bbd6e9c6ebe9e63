package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// install writes a manual page for each command into dir/man, and the completions of three shells into dir.
// SOURCE_DATE_EPOCH in the environment is the date of the pages.
func install(root *cobra.Command, dir string) error {
	man := filepath.Join(dir, "man")
	if err := os.MkdirAll(man, 0o755); err != nil {
		return err
	}
	root.DisableAutoGenTag = true
	return errors.Join(
		doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Titrate", Manual: "Titrate"}, man),
		root.GenBashCompletionFileV2(filepath.Join(dir, "titrate.bash"), true),
		root.GenZshCompletionFile(filepath.Join(dir, "titrate.zsh")),
		root.GenFishCompletionFile(filepath.Join(dir, "titrate.fish"), true),
	)
}
