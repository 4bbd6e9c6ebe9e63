package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/document"
)

// readDocuments reads the resources of files. All mistakes of all files come back
// joined; then there are no documents. What of directories is not read is named on stderr; with prune it is an error
// if it may hold documents, for what these name would be deleted.
func readDocuments(cmd *cobra.Command, paths []string, prune bool) ([]*document.Document, error) {
	files, left, err := command.OpenFiles(cmd.InOrStdin(), paths)
	if err != nil {
		return nil, err
	}
	left.Note(cmd.ErrOrStderr())
	if documents := left.Documents(); prune && len(documents) > 0 {
		return nil, fmt.Errorf("--prune deletes what no document mentions, and these may hold documents that are not "+
			"read: %s; give each with -f, or move it out of the directory", documents)
	}
	if err := document.Mistakes(files); err != nil {
		return nil, err
	}
	var all []*document.Document
	for _, f := range files {
		all = append(all, f.Documents...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no document of a resource in %s", strings.Join(paths, ", "))
	}
	return all, document.Unique(all)
}
