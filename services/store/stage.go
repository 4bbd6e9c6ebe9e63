package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

const (
	// chunkBytes is about how large one key of a staged change set gets: half of etcd's limit of 1.5 MiB a request, so
	// that one more resource of maxValue fits.
	chunkBytes = 512 << 10
	// chunkChanges bounds the changes in one: they are carried out in one transaction.
	chunkChanges = maxOps - 8
	// staleStage is the age at which a change set that was never committed is removed. Longer leaves what a crash left
	// behind in etcd for longer; shorter may take a slow writer's away, which then starts over.
	staleStage = 10 * time.Minute
	// inFlight is the number of chunks that are written or read at a time. Default 8: more take no less time, since
	// etcd writes what comes together to its disk together.
	inFlight = 8
	// carryAttempts bounds the attempts to write a part of a change set when etcd does not answer.
	carryAttempts = 5
)

// changeSet has the writes of one revision: resources as stored, and deleted names.
type changeSet struct {
	Resources []*quotav1.Resource
	Deleted   []string
	bytes     int // of the resources, see checkSize
}

func (s *Store) stagePrefix() string { return s.prefix + "changes/" }

func (s *Store) chunkKey(id string, n int) string {
	return fmt.Sprintf("%s%s/%06d", s.stagePrefix(), id, n)
}

// stage writes a change set apart from the configuration. It returns the head that will put it in force, and its parts.
func (s *Store) stage(ctx context.Context, next head, c changeSet) (head, []*controlv1.Configuration, error) {
	if err := s.sweep(ctx, next.Staged); err != nil {
		return next, nil, err
	}
	next.Staged = fmt.Sprintf("%016x-%08x", time.Now().UnixMilli(), rand.Uint32())
	chunks := chunked(c)
	next.Chunks = len(chunks)
	return next, chunks, eachChunk(ctx, chunks, func(ctx context.Context, i int, chunk *controlv1.Configuration) error {
		chunk.Revision = next.Revision
		b, err := proto.Marshal(chunk)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrBadChange, err)
		}
		return s.put(ctx, s.chunkKey(next.Staged, i), string(b))
	})
}

// eachChunk does something with all chunks, some at a time, until one fails.
func eachChunk(ctx context.Context, chunks []*controlv1.Configuration,
	do func(context.Context, int, *controlv1.Configuration) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for i, chunk := range chunks {
		group.Go(func() error { return do(ctx, i, chunk) })
	}
	return group.Wait()
}

// chunked cuts a change set into messages that each fit one transaction.
func chunked(c changeSet) []*controlv1.Configuration {
	var out []*controlv1.Configuration
	size := 0
	open := func(add int) *controlv1.Configuration {
		if n := len(out); n > 0 && size+add <= chunkBytes &&
			len(out[n-1].Resources)+len(out[n-1].Deleted) < chunkChanges {
			size += add
			return out[n-1]
		}
		out = append(out, &controlv1.Configuration{})
		size = add
		return out[len(out)-1]
	}
	for _, r := range c.Resources {
		chunk := open(proto.Size(r))
		chunk.Resources = append(chunk.Resources, r)
	}
	for _, name := range c.Deleted {
		chunk := open(len(name))
		chunk.Deleted = append(chunk.Deleted, name)
	}
	return out
}

// staged is the condition that a change set is still there: sweep deletes all of one or nothing, so its first key
// speaks for the others.
func (s *Store) staged(h head) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(s.chunkKey(h.Staged, 0)), ">", 0)
}

// ownStage is a change set of this process: its readers and its Watch have it, and its writers wait until it is carried
// out.
type ownStage struct {
	id      string
	chunks  []*controlv1.Configuration
	overlay func() overlay
	carried chan struct{} // closed then, or when that has failed
}

// ownOf returns the change set of a head if this process has it, else nil.
func (s *Store) ownOf(h head) *ownStage {
	if own := s.own.Load(); own != nil && own.id == h.Staged {
		return own
	}
	return nil
}

// chunks reads the change set of a head, at an etcd revision (0 = now). It must not be changed.
func (s *Store) chunks(ctx context.Context, h head, rev int64) ([]*controlv1.Configuration, error) {
	if own := s.ownOf(h); own != nil {
		return own.chunks, nil
	}
	out := make([]*controlv1.Configuration, h.Chunks)
	return out, eachChunk(ctx, out, func(ctx context.Context, i int, _ *controlv1.Configuration) error {
		got, err := s.get(ctx, s.chunkKey(h.Staged, i), clientv3.WithRev(rev))
		if err != nil {
			return err
		}
		if len(got.Kvs) == 0 {
			return fmt.Errorf("change set %s: %w: part %d of %d is missing", h.Staged, ErrCorrupt, i, h.Chunks)
		}
		out[i] = &controlv1.Configuration{}
		if err := proto.Unmarshal(got.Kvs[0].Value, out[i]); err != nil {
			return fmt.Errorf("change set %s: %w: part %d: %w", h.Staged, ErrCorrupt, i, err)
		}
		return nil
	})
}

// carryOut carries out the change set of a head: it writes the resources' own keys, then removes the change set. Any
// process may do it, several at once too: each step holds only while the head is unchanged.
func (s *Store) carryOut(ctx context.Context, h head) error {
	chunks, err := s.chunks(ctx, h, 0)
	if errors.Is(err, ErrCorrupt) {
		if now, again := s.readHead(ctx); again == nil && now.raw != h.raw {
			return nil // another process has finished it meanwhile
		}
	}
	if err != nil {
		return err
	}
	return s.carry(ctx, h, chunks)
}

// carryOutOwn carries out a change set that this process has just put in force. If that fails, the next writer does it.
func (s *Store) carryOutOwn(ctx context.Context, own *ownStage) {
	defer s.disown(own)
	h, err := s.readHead(ctx)
	if err == nil && h.Staged == own.id && h.Held == "" {
		err = s.carry(ctx, h, own.chunks)
	}
	if err != nil {
		s.log.WarnContext(ctx, "a change is in force and not yet carried out; the next change will", "error", err)
	}
}

// disown ends the time in which this process has a change set.
func (s *Store) disown(own *ownStage) {
	s.own.CompareAndSwap(own, nil)
	close(own.carried)
}

// carry writes the parts of a head's change set to the resources' own keys.
func (s *Store) carry(ctx context.Context, h head, chunks []*controlv1.Configuration) error {
	if err := eachChunk(ctx, chunks, func(ctx context.Context, _ int, chunk *controlv1.Configuration) error {
		ops, err := s.operations(changeSet{Resources: chunk.GetResources(), Deleted: chunk.GetDeleted()})
		if err != nil {
			return err
		}
		for attempt := range carryAttempts { // to write a part twice does no harm, to begin all over costs more
			if err = s.commit(ctx, h, ops); !errors.Is(err, ErrUnavailable) {
				break
			}
			backOff(ctx, attempt)
		}
		return err
	}); err != nil {
		return ignoreRaced(err)
	}
	done := h
	done.Staged, done.Chunks = "", 0
	return ignoreRaced(s.commit(ctx, h, []clientv3.Op{s.putHead(done), s.dropStage(h.Staged)}))
}

// ignoreRaced returns nil for errRaced: another process has carried out the change set.
func ignoreRaced(err error) error {
	if errors.Is(err, errRaced) {
		return nil
	}
	return err
}

func (s *Store) dropStage(id string) clientv3.Op {
	return clientv3.OpDelete(s.stagePrefix()+id+"/", clientv3.WithPrefix())
}

// sweep removes change sets, and changes for the history, that were never committed and that are too old to be written
// still.
func (s *Store) sweep(ctx context.Context, current string) error {
	var left []string
	got, err := s.get(ctx, s.stagePrefix(), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	for _, kv := range got.Kvs {
		id, _, _ := strings.Cut(string(kv.Key[len(s.stagePrefix()):]), "/")
		if id != current && stageAge(id) > staleStage && !slices.Contains(left, id) {
			left = append(left, id)
		}
	}
	for _, id := range left {
		s.log.InfoContext(ctx, "a change set that was never committed is removed", "id", id)
		if err := s.do(ctx, s.dropStage(id)); err != nil {
			return err
		}
	}
	return s.sweepParts(ctx)
}

func stageAge(id string) time.Duration {
	stamp, _, _ := strings.Cut(id, "-")
	ms, err := strconv.ParseInt(stamp, 16, 64)
	if err != nil {
		return staleStage + 1
	}
	return time.Since(time.UnixMilli(ms))
}

// Tidy finishes a change that a process committed and did not carry out, and removes what crashed writers left. Errors:
// ErrUnavailable, ErrCorrupt.
func (s *Store) Tidy(ctx context.Context) error {
	h, err := s.headAfterStage(ctx)
	if err != nil {
		return err
	}
	return s.sweep(ctx, h.Staged)
}

// headAfterStage carries out what is staged, and returns the head after it.
func (s *Store) headAfterStage(ctx context.Context) (head, error) {
	for attempt := 0; ; attempt++ {
		h, err := s.readHead(ctx)
		if err != nil || h.Staged == "" || h.Held != "" {
			return h, err
		}
		if own := s.ownOf(h); own != nil {
			select {
			case <-own.carried:
				continue
			case <-ctx.Done():
				return h, fmt.Errorf("%w: waited for other writers: %w", ErrUnavailable, ctx.Err())
			}
		}
		if err := s.carryOut(ctx, h); err != nil {
			return h, err
		}
		backOff(ctx, attempt)
	}
}

// overlay is a change set by name, nil = deleted.
type overlay map[string]resource.Message

func overlaid(chunks []*controlv1.Configuration) overlay {
	o := make(overlay)
	for _, c := range chunks {
		for _, r := range c.GetResources() {
			o[resource.Name(r)] = resource.Unwrap(r)
		}
		for _, name := range c.GetDeleted() {
			o[name] = nil
		}
	}
	return o
}
