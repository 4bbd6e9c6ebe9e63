package cli

import (
	"bytes"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/agent/lastgood"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/storetest"
)

func recovered(t *testing.T, wants string, arguments ...string) {
	t.Helper()
	var out bytes.Buffer
	cmd := Root()
	cmd.SetArgs(append([]string{"recover"}, arguments...))
	cmd.SetOut(&out)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("recover %v: %v", arguments, err)
	}
	if !strings.Contains(out.String(), wants) {
		t.Errorf("recover %v says %q, want %q", arguments, out.String(), wants)
	}
}

// The keys are gone; an agent's directory brings the configuration back.
func TestRecover(t *testing.T) {
	etcd, prefix := storetest.Shared(t), strings.TrimSuffix(storetest.Prefix(t), "/")
	client := etcd.Client(t)
	s := store.Open(client, prefix+"/v1alpha1/")
	api := &quotav1.Pool{Name: "pools/api", Capacity: 5}
	if _, err := s.Apply(t.Context(), store.Note{}, []store.Change{{Resource: api}}); err != nil {
		t.Fatal(err)
	}
	batches := s.Watch(t.Context(), store.Snapshot{})
	held := (<-batches).Revision
	dir := t.TempDir()
	kept := lastgood.Snapshot{Configuration: &controlv1.Configuration{Revision: held, Full: true, Last: true,
		Resources: []*quotav1.Resource{{Kind: &quotav1.Resource_Pool{Pool: api}}}}}
	if err := lastgood.NewKeeper(dir).Save(kept); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--etcd-endpoints", etcd.Endpoint, "--etcd-prefix", prefix}
	if _, err := client.Delete(t.Context(), prefix, clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	if b := <-batches; b.Held == "" {
		t.Fatalf("%+v", b)
	}
	recovered(t, "held: the configuration in etcd is gone", flags...)
	recovered(t, "1 resource\n", append(flags, "--from", dir)...)
	if b := <-batches; b.Revision <= held || len(b.Resources) != 1 {
		t.Errorf("%+v", b)
	}
	if _, err := client.Delete(t.Context(), prefix+"/v1alpha1/pools/api"); err != nil {
		t.Fatal(err)
	}
	recovered(t, "missing: 1 resource", flags...)
	recovered(t, "0 resources\n", append(flags, "--accept")...)

	cmd := Root()
	cmd.SetArgs(append([]string{"recover", "--accept", "--from", dir}, flags...))
	if err := cmd.ExecuteContext(t.Context()); command.ExitStatus(err) != command.ExitUsage {
		t.Errorf("both flags: %v", err)
	}
}
