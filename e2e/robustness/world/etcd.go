package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/titrate/titrate/e2e/robustness/member"
	"github.com/titrate/titrate/e2e/robustness/wire"
)

// endpoints are the members' addresses for clients.
func (w *World) endpoints() (all []string) {
	for _, e := range w.Etcd {
		all = append(all, address(e.Host, member.ClientPort))
	}
	return all
}

// cluster names the members to each other.
func cluster(hosts []*wire.Host) string {
	var all []string
	for _, h := range hosts {
		all = append(all, h.Name+"="+member.Peer(h.Address.String()))
	}
	return strings.Join(all, ",")
}

// etcd connects to the members.
func (w *World) etcd() (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: w.endpoints(), DialTimeout: 3 * time.Second, Logger: zap.NewNop()})
}

// compactTries is the number of tries of a compaction. A member that was just cut off accepts the request,
// and times out after some seconds.
const compactTries = 3

// Compact lets etcd forget all revisions but the last, and frees what they took.
func (w *World) Compact(ctx context.Context) (err error) {
	for range compactTries {
		if err = w.compact(ctx); err == nil {
			return nil
		}
	}
	return err
}

func (w *World) compact(ctx context.Context) error {
	c, err := w.etcd()
	if err != nil {
		return err
	}
	defer c.Close()
	got, err := c.Get(ctx, "compact")
	if err != nil {
		return err
	}
	_, err = c.Compact(ctx, got.Header.Revision, clientv3.WithCompactPhysical())
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) { // by a try that was said to have timed out
		return err
	}
	for _, e := range w.endpoints() {
		if _, err := c.Defragment(ctx, e); err != nil {
			return fmt.Errorf("defragment %s: %w", e, err)
		}
	}
	return nil
}

// Snapshot saves etcd in a file.
func (w *World) Snapshot(ctx context.Context) (file string, err error) {
	c, err := w.etcd()
	if err != nil {
		return "", err
	}
	defer c.Close()
	in, err := c.Snapshot(ctx)
	if err != nil {
		return "", err
	}
	defer in.Close()
	out, err := os.CreateTemp("", "snapshot-*.db")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, in)
	return out.Name(), errors.Join(err, out.Close())
}

// Restore ends all members and begins a new cluster with the contents of a
// snapshot, as after the loss of a quorum (etcdutl snapshot restore).
func (w *World) Restore(ctx context.Context, file string) error {
	var hosts []*wire.Host
	for _, e := range w.Etcd {
		e.Kill()
		hosts = append(hosts, e.Host)
	}
	w.mu.Lock()
	w.restored++
	n := w.restored
	w.mu.Unlock()
	for _, e := range w.Etcd {
		dir := e.rig.File(fmt.Sprintf("data-%d", n))
		err := snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
			SnapshotPath: file, Name: e.Host.Name, OutputDataDir: dir,
			OutputWALDir: filepath.Join(dir, "member", "wal"),
			PeerURLs:     []string{member.Peer(e.Host.Address.String())}, InitialCluster: cluster(hosts),
			InitialClusterToken: fmt.Sprintf("restored-%d", n)})
		if err != nil {
			return fmt.Errorf("restore %s: %w", e.Name, err)
		}
		e.Args = member.Args(e.Host.Name, dir, e.Host.Address.String(), cluster(hosts))
	}
	return w.StartAll(ctx, w.Etcd)
}
