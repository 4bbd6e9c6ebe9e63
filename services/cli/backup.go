package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

const backupLong = `backup asks a coordinator for the whole configuration and writes it into a new file in
--dir, as documents that titrate apply takes. Of its files there the newest --keep stay. A
configuration without resources is not written: it would in time displace the files that have some.

Read rights are enough (role viewer).`

const backupExample = `  titrate backup --dir /var/backups/titrate --keep 14
  titrate apply -f /var/backups/titrate/titrate-20260102T030405Z.yaml     bring it back`

// A backup's name sorts by its time, in UTC.
const (
	backupName  = "titrate-20060102T150405Z.yaml"
	backupFiles = "titrate-*Z.yaml"
)

func newBackup() *cobra.Command {
	var (
		c    connection
		dir  string
		keep int
	)
	cmd := &cobra.Command{
		Use:     "backup --dir DIR",
		Short:   "Write the whole configuration into a file, and keep the newest few",
		Long:    backupLong,
		Example: backupExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if keep < 1 {
				return command.Usagef("--keep %d must be 1 or more", keep)
			}
			return c.use(func(client *client) error { return runBackup(cmd, client, dir, keep) })
		},
	}
	c.flags(cmd)
	cmd.Flags().StringVar(&dir, "dir", "", "directory of the backups")
	cmd.Flags().IntVar(&keep, "keep", 14, "backups that stay; older ones are deleted")
	_ = cmd.MarkFlagRequired("dir")
	return cmd
}

func runBackup(cmd *cobra.Command, client *client, dir string, keep int) error {
	path, n := filepath.Join(dir, time.Now().UTC().Format(backupName)), 0
	err := writeWhole(path, func(w io.Writer) (err error) {
		n, err = client.backup(cmd.Context(), w)
		return err
	})
	switch {
	case errors.Is(err, errNothing):
		fmt.Fprintln(cmd.ErrOrStderr(), "Nothing is configured: no backup was written.")
		return nil
	case err != nil:
		return fmt.Errorf("backup: %w", err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", path, wording.Count(n, "resource"))
	return forgetBackups(dir, keep)
}

var errNothing = errors.New("nothing is configured")

// backup writes what apply takes whatever is stored by then: no etag, no status. It returns the
// number of resources.
func (c *client) backup(ctx context.Context, to io.Writer) (int, error) {
	buffered := bufio.NewWriter(to)
	w := document.NewWriter(buffered, false)
	err := c.configuration(ctx, 0, func(m resource.Message) error {
		r := m.ProtoReflect()
		for _, name := range []string{"etag", "status", "update_time"} {
			if field := r.Descriptor().Fields().ByTextName(name); field != nil {
				r.Clear(field)
			}
		}
		return w.Write(m)
	})
	switch {
	case err != nil:
		return 0, worded(err)
	case w.Count() == 0:
		return 0, errNothing
	}
	return w.Count(), errors.Join(w.Close(), buffered.Flush())
}

// writeWhole writes a file that only its user may read. It is there whole, in place of one before it, or not at all.
func writeWhole(path string, write func(io.Writer) error) error {
	part, err := os.CreateTemp(filepath.Dir(path), ".titrate-*.part")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name()) // gone after the rename
	if err := errors.Join(write(part), part.Sync(), part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), path)
}

// forgetBackups deletes all but the newest.
func forgetBackups(dir string, keep int) error {
	files, err := filepath.Glob(filepath.Join(dir, backupFiles))
	if err != nil {
		return err
	}
	slices.Sort(files)
	for _, file := range files[:max(0, len(files)-keep)] {
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("old backup: %w", err)
		}
	}
	return nil
}
