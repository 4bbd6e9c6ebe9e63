package ledger

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/titrate/titrate/services/coordinator/booking"
	"github.com/titrate/titrate/services/store/storetest"
)

// More than etcd takes at once is stored in several transactions. A shard that is too large alone does not keep the
// values from being stored, and they are not deleted.
func TestLargeBatches(t *testing.T) {
	client, prefix := storetest.Shared(t).Client(t), storetest.Prefix(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	refused := 0
	j, err := openJournal(ctx, client, prefix, 1, func(error) { refused++ })
	if err != nil {
		t.Fatal(err)
	}
	j.next, j.oldest = 1, 1
	some := func(n int) []byte { return bytes.Repeat([]byte{version}, n) }
	values := [][]byte{some(valueSize), some(valueSize)}
	folds := map[int][]byte{1: some(900 << 10), 2: some(900 << 10), 3: some(900 << 10), 4: some(2 << 20)}
	if err := j.store(ctx, batch{values: values, folds: folds, oldest: 3}); err != nil {
		t.Fatal(err)
	}
	keys := func() (out []string) {
		got, err := client.Get(ctx, prefix+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range got.Kvs {
			out = append(out, string(kv.Key))
		}
		return out
	}
	for _, key := range []string{j.valueKey(1), j.valueKey(2), j.shardKey(1), j.shardKey(2), j.shardKey(3)} {
		if !slices.Contains(keys(), key) {
			t.Errorf("%s is not stored", key)
		}
	}
	if refused != 1 || j.positions[1] != 2 || j.positions[4] != 0 || j.next != 3 || j.oldest != 1 {
		t.Errorf("%d are refused, positions %v, next %d, oldest %d", refused, j.positions[:5], j.next, j.oldest)
	}
	delete(folds, 4)
	if err := j.store(ctx, batch{folds: folds, oldest: 3}); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(keys(), j.valueKey(2)) {
		t.Error("values that are in shards stay")
	}
}

const version, valueSize = 1, 512 << 10

// The shard that is stale is folded, wherever the cursor is.
func TestTheStaleShardIsFolded(t *testing.T) {
	j := &journal{next: 1, credit: -1}
	b := j.batch(booking.New(nil), 7)
	if len(b.folds) != 1 || b.folds[7] == nil {
		t.Errorf("%d shards", len(b.folds))
	}
}
