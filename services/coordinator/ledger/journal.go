package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/titrate/titrate/services/coordinator/booking"
	"github.com/titrate/titrate/services/store"
)

// errFenced says that another coordinator has taken the journal, or that etcd was restored.
var errFenced = errors.New("the journal has another owner, or etcd was restored")

const (
	// pageShards and pageValues are how many keys one ranged read asks for: some MiB.
	pageShards, pageValues = 16, 64
	// foldPart of the bytes of values is spent on shards. Smaller writes less and leaves more values to read back.
	foldPart = .5
	// foldsAtOnce and foldBytes bound the shards in one transaction.
	foldsAtOnce, foldBytes = 8, 768 << 10
	// mostBytes bounds a transaction and a shard. etcd takes 1.5 MiB.
	mostBytes = 1 << 20
)

// journal is the place of a book in etcd, while this coordinator owns it.
//
//	PREFIX/owner          epoch of the coordinator that may write
//	PREFIX/shards/SHARD   a part of the book, with the number of the last value that is in it
//	PREFIX/values/NUMBER  what changed since
type journal struct {
	client *clientv3.Client
	prefix string
	fence  int64  // revision of PREFIX/owner
	next   uint64 // number of the next value
	oldest uint64 // number of the first value that may be stored

	positions [booking.Shards]uint64
	sizes     [booking.Shards]int
	cursor    int     // shard that is folded next
	credit    float64 // bytes that may be spent on shards

	refused func(error) // is called with what etcd does not store until somebody has changed something
	written written
}

// written counts what was written.
type written struct {
	transactions, bytes uint64
	last                time.Duration // of the last transaction
}

func (j *journal) owner() string            { return j.prefix + "/owner" }
func (j *journal) shardKey(n int) string    { return fmt.Sprintf("%s/shards/%02x", j.prefix, n) }
func (j *journal) valueKey(n uint64) string { return fmt.Sprintf("%s/values/%016x", j.prefix, n) }

// openJournal makes this coordinator the owner of the journal, under its epoch.
func openJournal(ctx context.Context, client *clientv3.Client, prefix string, epoch int64, refused func(error)) (
	*journal, error) {
	j := &journal{client: client, prefix: prefix, refused: refused}
	ctx, cancel := context.WithTimeout(ctx, store.Timeout)
	defer cancel()
	got, err := client.Get(ctx, j.owner())
	if err != nil {
		return nil, err
	}
	same := clientv3.Compare(clientv3.CreateRevision(j.owner()), "=", 0)
	if len(got.Kvs) > 0 {
		// A value that cannot be read counts as 0, as an epoch does.
		if before, _ := strconv.ParseInt(string(got.Kvs[0].Value), 10, 64); before > epoch {
			return nil, fmt.Errorf("a coordinator with epoch %d, above %d, owns the journal of bookings", before, epoch)
		}
		same = clientv3.Compare(clientv3.ModRevision(j.owner()), "=", got.Kvs[0].ModRevision)
	}
	done, err := client.Txn(ctx).If(same).Then(clientv3.OpPut(j.owner(), strconv.FormatInt(epoch, 10))).Commit()
	if err != nil {
		return nil, err
	}
	if !done.Succeeded {
		return nil, errFenced
	}
	j.fence = done.Header.Revision
	return j, nil
}

// read reads the book. What cannot be read is left out: unreadable says how many values.
func (j *journal) read(ctx context.Context, now time.Time, b *booking.Book) (unreadable int, err error) {
	err = j.each(ctx, j.prefix+"/shards/", pageShards, func(key string, value []byte) {
		n, err := strconv.ParseUint(key, 16, 8)
		if err == nil {
			j.sizes[n] = len(value)
			j.positions[n], err = b.RestoreShard(now, int(n), value)
			j.next = max(j.next, j.positions[n]+1)
		}
		if err != nil {
			unreadable++
		}
	})
	if err != nil {
		return 0, err
	}
	err = j.each(ctx, j.prefix+"/values/", pageValues, func(key string, value []byte) {
		n, err := strconv.ParseUint(key, 16, 64)
		if err == nil {
			if j.oldest == 0 {
				j.oldest = n
			}
			j.next = max(j.next, n+1)
			err = b.Replay(now, value, func(shard int) bool { return n > j.positions[shard] })
		}
		if err != nil {
			unreadable++
		}
	})
	j.next = max(j.next, 1)
	if j.oldest == 0 {
		j.oldest = j.next
	}
	return unreadable, err
}

// each calls take with the keys under a prefix, in order, in pages.
func (j *journal) each(ctx context.Context, prefix string, page int64, take func(key string, value []byte)) error {
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	for {
		asking, cancel := context.WithTimeout(ctx, store.Timeout)
		got, err := j.client.Get(asking, from, clientv3.WithRange(end), clientv3.WithLimit(page))
		cancel()
		if err != nil {
			return err
		}
		for _, kv := range got.Kvs {
			take(strings.TrimPrefix(string(kv.Key), prefix), kv.Value)
			from = string(kv.Key) + "\x00"
		}
		if !got.More {
			return nil
		}
	}
}

// batch has the values that one call of store writes.
type batch struct {
	values [][]byte
	folds  map[int][]byte
	oldest uint64 // values before it are in shards
	large  []int  // shards that do not fit a transaction: their values stay
}

// batch takes what is to be written from a book. The stale shards are folded in any case.
func (j *journal) batch(b *booking.Book, stale ...int) batch {
	out := batch{values: b.Write(), folds: map[int][]byte{}}
	for _, v := range out.values {
		j.credit += foldPart * float64(len(v))
	}
	last, size := j.next+uint64(len(out.values))-1, 0
	fold := func(shard int) {
		packed := b.Fold(shard, last)
		j.credit -= float64(len(packed))
		j.sizes[shard] = len(packed)
		if len(packed) > mostBytes {
			out.large = append(out.large, shard)
			return
		}
		size += len(packed)
		out.folds[shard] = packed
	}
	for _, shard := range stale {
		fold(shard)
	}
	due := func() bool { return j.credit >= float64(min(j.sizes[j.cursor]+1, foldBytes)) }
	for n := len(stale); n < foldsAtOnce && size < foldBytes && due(); n++ {
		if out.folds[j.cursor] == nil {
			fold(j.cursor)
		}
		j.cursor = (j.cursor + 1) % booking.Shards
	}
	j.credit = min(j.credit, foldBytes)
	out.oldest = last + 1
	for shard, position := range j.positions {
		if out.folds[shard] == nil {
			out.oldest = min(out.oldest, position+1)
		}
	}
	return out
}

// store writes a batch: the values first, each until it is stored or ctx ends, then shards, in transactions of
// mostBytes. A shard that etcd refuses is left out: its values stay. errFenced: the batch is not stored.
func (j *journal) store(ctx context.Context, b batch) error {
	var t transaction
	for i, v := range b.values {
		if err := j.flush(ctx, &t); err != nil {
			return err
		}
		t.put(j.valueKey(j.next+uint64(i)), v)
		t.needed = true
	}
	for _, shard := range b.large {
		j.refused(fmt.Errorf("shard %d of the bookings has %d bytes, above %d", shard, j.sizes[shard], mostBytes))
	}
	for shard, fold := range b.folds {
		if t.size+len(fold) > mostBytes {
			if err := j.flush(ctx, &t); err != nil {
				return err
			}
		}
		t.put(j.shardKey(shard), fold)
		t.shards = append(t.shards, shard)
	}
	// It goes with the last shards, and they may be refused: then the values stay.
	if b.oldest > j.oldest && len(b.folds) > 0 && !t.refused {
		t.ops = append(t.ops, clientv3.OpDelete(j.valueKey(j.oldest), clientv3.WithRange(j.valueKey(b.oldest))))
	}
	if err := j.flush(ctx, &t); err != nil {
		return err
	}
	j.advance(b, t.stored, t.refused)
	return nil
}

// advance goes on behind a batch of which the values and these shards are stored. refused: others are not.
func (j *journal) advance(b batch, shards []int, refused bool) {
	last := j.next + uint64(len(b.values)) - 1
	j.next = last + 1
	if len(b.folds) > 0 && !refused {
		j.oldest = max(j.oldest, b.oldest)
	}
	for _, shard := range shards {
		j.positions[shard] = last
	}
}

// transaction gathers what is written at once.
type transaction struct {
	ops    []clientv3.Op
	size   int
	needed bool  // it has a value
	shards []int // in ops

	stored  []int // shards of earlier ones
	refused bool  // some shards were not stored
}

func (t *transaction) put(key string, value []byte) {
	t.ops, t.size = append(t.ops, clientv3.OpPut(key, string(value))), t.size+len(value)
}

// flush commits what is gathered.
func (j *journal) flush(ctx context.Context, t *transaction) error {
	if len(t.ops) == 0 {
		return nil
	}
	err := j.commit(ctx, t.size, !t.needed, t.ops...)
	switch {
	case err == nil:
		t.stored = append(t.stored, t.shards...)
	case !t.needed && permanent(err):
		t.refused = true
	default:
		return err
	}
	t.ops, t.shards, t.size, t.needed = nil, nil, 0, false
	return nil
}

const (
	// retryAfter is the time between two tries of a transaction.
	retryAfter = 100 * time.Millisecond
	// patience bounds the time of a try. A slow etcd stores it within; else it is tried again.
	patience = 15 * time.Second
)

// permanent reports whether etcd refuses a transaction until somebody has changed something: it is too large, etcd is
// full, or its user may not write.
func permanent(err error) bool {
	code := status.Code(err)
	if e := (rpctypes.EtcdError{}); errors.As(err, &e) {
		code = e.Code()
	}
	switch code {
	case codes.InvalidArgument, codes.ResourceExhausted, codes.PermissionDenied, codes.Unauthenticated:
		return true
	}
	return false
}

// commit makes a transaction. An answer that is lost does no harm: the same is written again. With once it is not
// tried again after a permanent error.
func (j *journal) commit(ctx context.Context, size int, once bool, ops ...clientv3.Op) error {
	mine := clientv3.Compare(clientv3.ModRevision(j.owner()), "=", j.fence)
	for {
		began := time.Now()
		asking, cancel := context.WithTimeout(ctx, patience)
		done, err := j.client.Txn(asking).If(mine).Then(ops...).Commit()
		cancel()
		switch {
		case err == nil && !done.Succeeded:
			return errFenced
		case err == nil:
			j.written.transactions++
			j.written.bytes += uint64(size)
			j.written.last = time.Since(began)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case permanent(err):
			j.refused(err)
			if once {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryAfter):
		}
	}
}
