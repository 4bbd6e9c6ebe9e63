package cli

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/quota/bykind"
	"github.com/titrate/titrate/services/store/resource"
)

const deleteLong = `delete removes resources by name, or the resources of documents.

A pool or tenant that others need is refused; the error names them. With --force they
go too, in the same transaction: a tenant's quotas and limits; a pool's quotas and the
limits on that pool alone. A limit on several pools only loses this one.

What is gone limits nobody: requests to a deleted pool pass without a share, and those of
a deleted tenant count for the default one.

Several are deleted one after the other, limits and quotas before what they need, and
the first failure ends it; each that is gone is printed.`

const deleteExample = `  titrate delete tenants/acme/quotas/api
  titrate delete tenants/acme --force
  titrate delete -f demo.yaml --allow-missing`

func newDelete() *cobra.Command {
	var (
		c                   connection
		files               []string
		force, allowMissing bool
		id                  string
	)
	cmd := &cobra.Command{
		Use:     "delete NAME... | -f FILE|DIR|-",
		Short:   "Delete resources",
		Long:    deleteLong,
		Example: deleteExample,
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) == 0) == (len(files) == 0) {
				return fmt.Errorf("give names or -f, one of the two")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			refs, err := namesToDelete(cmd, args, files)
			if err != nil {
				return err
			}
			return c.use(func(client *client) error { return runDelete(cmd, client, refs, force, allowMissing, id) })
		},
	}
	c.flags(cmd)
	command.FileFlag(cmd, &files,
		"file or directory of documents that name what to delete, - for standard input; may be "+
			"repeated")
	cmd.Flags().BoolVar(&force, "force", false,
		"delete what needs a pool or tenant, or belongs to a plan or limit, too")
	cmd.Flags().BoolVar(&allowMissing, "allow-missing", false, "what does not exist is no failure")
	requestFlag(cmd.Flags(), &id)
	cmd.ValidArgsFunction = completeNames(&c, resource.Kinds)
	return cmd
}

// namesToDelete returns what to delete, in the order in which it can be.
func namesToDelete(cmd *cobra.Command, args, files []string) ([]resource.Ref, error) {
	var refs []resource.Ref
	for _, name := range args {
		ref, err := resource.Parse(name)
		if err != nil {
			return nil, command.Usage(err)
		}
		refs = append(refs, ref)
	}
	if len(files) > 0 {
		documents, err := readDocuments(cmd, files, false)
		if err != nil {
			return nil, fmt.Errorf("nothing was deleted:\n%w", err)
		}
		for _, d := range documents {
			ref, err := resource.Parse(d.Name())
			if err != nil {
				return nil, err
			}
			refs = append(refs, ref)
		}
	}
	slices.SortStableFunc(refs, func(a, b resource.Ref) int { return int(b.Kind) - int(a.Kind) })
	return refs, nil
}

func runDelete(cmd *cobra.Command, client *client, refs []resource.Ref, force, allowMissing bool, id string) error {
	id = cmp.Or(id, rand.Text())
	for i, ref := range refs {
		one := id
		if i > 0 {
			one = fmt.Sprintf("%s.%d", id, i+1)
		}
		deletion := bykind.Deletion{Name: ref.String(), RequestID: one, AllowMissing: allowMissing, Force: force}
		if err := bykind.Delete(cmd.Context(), client, ref.Kind, deletion); err != nil {
			if lost := (*unsure)(nil); errors.As(err, &lost) {
				lost.id = id // that of the command
			}
			return worded(err)
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), ref, "deleted"); err != nil {
			return err
		}
	}
	return nil
}
