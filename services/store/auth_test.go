package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/titrate/titrate/services/store"
)

// An etcd with authentication: with the password a store works, also from before
// etcd was there; with a wrong one and without a user it says why not.
func TestEtcdWithAUser(t *testing.T) {
	c := newCluster(t)
	admin := c.etcd.Client(t)
	ctx := t.Context()
	for _, err := range []error{
		second(admin.UserAdd(ctx, "root", "secret")), second(admin.UserGrantRole(ctx, "root", "root")),
		second(admin.RoleAdd(ctx, "titrate")), second(admin.UserAdd(ctx, "titrate", "pass")),
		second(admin.RoleGrantPermission(ctx, "titrate", store.Prefix, clientv3.GetPrefixRangeEnd(store.Prefix),
			clientv3.PermissionType(clientv3.PermReadWrite))),
		second(admin.UserGrantRole(ctx, "titrate", "titrate")), second(admin.AuthEnable(ctx)),
	} {
		if err != nil && !strings.Contains(err.Error(), "role name already exists") {
			t.Fatal(err)
		}
	}
	open := func(user, password string) *store.Store {
		client, err := store.Dial(store.Access{Endpoints: []string{c.etcd.Endpoint}, User: user, Password: password})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		return store.Open(client, "")
	}
	s := open("titrate", "pass")
	apply(t, s, puts(pool("api", 1))...)
	batches := s.Watch(ctx, store.Snapshot{})
	next(t, batches)
	apply(t, s, herd(100, 1)...)
	if b := next(t, batches); len(b.Resources) != 201 {
		t.Errorf("%d resources", len(b.Resources))
	}
	for who, bad := range map[string]*store.Store{"a wrong password": open("titrate", "wrong"),
		"no user": open("", "")} {
		if _, err := bad.Get(ctx, "pools/api"); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", who, err)
		}
	}
	c.etcd.Kill()
	early := open("titrate", "pass") // does not wait for etcd
	c.start(c.etcd.Dir, c.etcd.Endpoint)
	eventually(t, early, puts(pool("late", 1)))
}

// A store whose right to read was taken away says that it follows no more.
func TestFollowingWithoutTheRightTo(t *testing.T) {
	c := newCluster(t)
	s := store.Open(c.etcd.Client(t), "")
	apply(t, s, puts(pool("api", 1))...)
	next(t, s.Watch(t.Context(), store.Snapshot{}))
	if err := s.Following(); err != nil {
		t.Error(err)
	}
	admin, ctx := c.etcd.Client(t), t.Context()
	for _, err := range []error{second(admin.UserAdd(ctx, "root", "secret")),
		second(admin.UserGrantRole(ctx, "root", "root")), second(admin.AuthEnable(ctx))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(30 * time.Second); s.Following() == nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it says that it follows")
		}
	}
	client, err := store.Dial(store.Access{Endpoints: []string{c.etcd.Endpoint}, User: "root", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.AuthDisable(ctx); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); s.Following() != nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it follows again and says: %v", s.Following())
		}
	}
}

func TestPassword(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("from file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ user, file, env, want, wrong string }{
		{"", "", "ignored", "", ""},
		{"u", file, "other", "from file", ""},
		{"u", "", "from env", "from env", ""},
		{"u", "", "", "", "TITRATE_ETCD_PASSWORD"},
		{"u", empty, "", "", "is empty"},
		{"u", "/none", "", "", "/none"},
		{"", file, "", "", "--etcd-user"},
	} {
		t.Setenv(store.PasswordEnv, c.env)
		got, err := store.Password(c.user, c.file)
		if got != c.want || (c.wrong == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: %q %v", c, got, err)
		}
	}
}
