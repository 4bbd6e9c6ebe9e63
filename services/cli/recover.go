package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/titrate/titrate/services/agent/lastgood"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/telemetry"
	"github.com/titrate/titrate/services/wording"
)

const recoverLong = `recover looks at the configuration in etcd, and puts it in force again after it was held.

The configuration is held when it is gone from etcd or resources are missing that nobody
deleted through Titrate: the keys were deleted, or etcd was replaced by an empty one. The
gateways keep the configuration that they have, the coordinators are not ready, and
titrate apply is refused, until one of these has said what is to hold:

  titrate recover --from DIR   the configuration that an agent kept: DIR is its --snapshot-dir,
                               or a copy. All that is stored in etcd beside it is deleted.
  titrate recover --accept     what is in etcd now, empty or not. Gateways drop the rest.

An etcd that was restored from a backup needs none of this: what the backup holds is
delivered under a new revision. The changes since the backup are lost; --from brings
those back that an agent has.

Without either flag, recover says what is stored and changes nothing.`

const recoverExample = `  titrate recover --etcd-endpoints etcd-0:2379
  titrate recover --etcd-endpoints etcd-0:2379 --from /var/lib/titrate
  titrate recover --etcd-endpoints etcd-0:2379 --accept`

// etcdAccess is the way to etcd, by the flags.
type etcdAccess struct {
	endpoints []string
	security  telemetry.Security
	user      string
	password  string
	prefix    string
}

func (e *etcdAccess) open() (*store.Store, func() error, error) {
	secure, err := e.security.TLSCredentials()
	if err != nil {
		return nil, nil, command.Usage(fmt.Errorf("TLS for etcd: %w", err))
	}
	password, err := store.Password(e.user, e.password)
	if err != nil {
		return nil, nil, command.Usage(err)
	}
	client, err := store.Dial(store.Access{Endpoints: e.endpoints, TLS: secure, User: e.user, Password: password})
	if err != nil {
		return nil, nil, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	return store.Open(client, e.prefix+"/v1alpha1/").LogTo(log), client.Close, nil
}

func newRecover() *cobra.Command {
	var (
		etcd   etcdAccess
		from   string
		accept bool
	)
	cmd := &cobra.Command{
		Use:     "recover",
		Short:   "Put the configuration in force again after etcd lost it",
		Long:    recoverLong,
		Example: recoverExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from != "" && accept {
				return command.Usagef("--from and --accept contradict each other: give one")
			}
			s, done, err := etcd.open()
			if err != nil {
				return err
			}
			defer func() { _ = done() }()
			return runRecover(cmd.Context(), cmd.OutOrStdout(), s, from, accept)
		},
	}
	f := cmd.Flags()
	etcdFlags(f, &etcd.endpoints, &etcd.security, &etcd.user, &etcd.password, &etcd.prefix)
	f.StringVar(&from, "from", "", "directory with an agent's last good configuration, to put in force")
	f.BoolVar(&accept, "accept", false, "put in force what is in etcd now, empty or not")
	return cmd
}

func runRecover(ctx context.Context, out io.Writer, s *store.Store, from string, accept bool) error {
	before, err := s.Snapshot(ctx)
	if err != nil && !accept && from == "" {
		return err
	}
	if err == nil {
		describe(out, "in etcd", before)
	}
	var after store.Snapshot
	switch {
	case accept:
		after, err = s.Accept(ctx, 0)
	case from != "":
		after, err = restore(ctx, s, from)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	describe(out, "in force", after)
	return nil
}

// restore puts an agent's last good configuration in force.
func restore(ctx context.Context, s *store.Store, dir string) (store.Snapshot, error) {
	if _, err := os.Stat(dir); err != nil {
		return store.Snapshot{}, fmt.Errorf("--from: %w", err)
	}
	kept, err := lastgood.Load(dir)
	if err != nil {
		return store.Snapshot{}, fmt.Errorf("--from %s: %w", dir, err)
	}
	if kept == nil {
		return store.Snapshot{}, fmt.Errorf("--from %s: there is no last-good.bin; give an agent's --snapshot-dir", dir)
	}
	note := store.Note{Action: "recover", Message: "from " + dir}
	return s.Replace(ctx, note, kept.Configuration.GetResources(), kept.Configuration.GetRevision())
}

func describe(out io.Writer, where string, s store.Snapshot) {
	fmt.Fprintf(out, "%s: revision %d, %s\n", where, s.Revision, wording.Count(len(s.Resources), "resource"))
	if s.Held != "" {
		fmt.Fprintf(out, "  held: %s\n", s.Held)
	}
	if s.Missing > 0 {
		fmt.Fprintf(out, "  missing: %s\n", wording.Count(s.Missing, "resource"))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Unreadable)) {
		fmt.Fprintf(out, "  cannot be read: %v\n", s.Unreadable[name])
	}
}
