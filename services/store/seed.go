package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Seed returns the seed of the gossip's key hashes. It is drawn at the first call and is the same for all coordinators
// from then on. A Store that has read the seed stores it again if it was deleted. Errors: ErrCorrupt, ErrUnavailable.
func (s *Store) Seed(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	key := s.prefix + "meta/seed"
	seed := s.seed.Load()
	if seed == 0 {
		seed = rand.Uint64()
	}
	drawn := binary.BigEndian.AppendUint64(nil, seed)
	done, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, string(drawn))).
		Else(clientv3.OpGet(key)).Commit()
	if err != nil {
		return 0, failed(ctx, err)
	}
	if !done.Succeeded {
		drawn = done.Responses[0].GetResponseRange().Kvs[0].Value
	}
	if len(drawn) != 8 {
		return 0, fmt.Errorf("%s: %w: %d bytes instead of 8", key, ErrCorrupt, len(drawn))
	}
	s.seed.Store(binary.BigEndian.Uint64(drawn))
	return s.seed.Load(), nil
}
