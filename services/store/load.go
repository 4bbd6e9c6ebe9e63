package store

import (
	"context"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// load reads all that the changes need: what they name, what that refers to and, for deletions, what may refer to it.
// The head, read before, guards it.
func (s *Store) load(ctx context.Context, h head, changes []Change) (view, error) {
	v := make(view)
	names := wanted(changes)
	load := s.loadKeys
	if len(names) > maxOps && h.Count >= 0 && h.Count <= manyKeys*len(names) {
		load = s.loadAll
	}
	if err := load(ctx, names, v); err != nil {
		return nil, err
	}
	deleted := map[string]bool{}
	for _, c := range changes {
		if c.Op != Delete {
			continue
		}
		if ref, err := resource.Parse(c.Name); err == nil && !ref.Kind.Last() {
			deleted[c.Name] = true
		}
	}
	if err := s.loadWitnesses(ctx, changes, v); err != nil {
		return nil, err
	}
	return v, s.loadDependants(ctx, deleted, v)
}

// loadWitnesses reads an override of each limit that is to have another kind, if it has any.
func (s *Store) loadWitnesses(ctx context.Context, changes []Change, v view) error {
	for _, c := range changes {
		now, is := c.Resource.(*quotav1.Limit)
		was, there := v[c.name()].(*quotav1.Limit)
		if c.Op == Delete || !is || !there || resource.JudgeOf(now).Alike(resource.JudgeOf(was)) {
			continue
		}
		start := s.keyOf(c.name() + "/overrides/")
		got, err := s.get(ctx, start, clientv3.WithPrefix(), clientv3.WithLimit(1))
		if err != nil {
			return err
		}
		for _, kv := range got.Kvs {
			s.decodeKnown(kv, func(m resource.Message) { v[m.GetName()] = m })
		}
	}
	return nil
}

// loadDependants reads what refers to what is deleted: for a few tenants and limits what belongs to each, otherwise all
// quotas, limits and overrides once.
func (s *Store) loadDependants(ctx context.Context, deleted map[string]bool, v view) error {
	const few = 16
	starts := map[string]bool{}
	for name := range deleted {
		ref, _ := resource.Parse(name)
		switch {
		case len(deleted) > few:
			starts[s.prefix+"plans/"], starts[s.prefix+"tenants/"], starts[s.prefix+overrides] = true, true, true
		case ref.Kind == resource.Limit:
			starts[s.keyOf(name+"/overrides/")] = true
		case ref.Kind == resource.Tenant:
			starts[s.prefix+name+"/"], starts[s.prefix+overrides+name+"/"] = true, true
		default:
			starts[s.prefix+"plans/"], starts[s.prefix+"tenants/"] = true, true
		}
	}
	for start := range starts {
		err := s.scan(ctx, start, clientv3.GetPrefixRangeEnd(start), 0, func(kv *mvccpb.KeyValue) (bool, error) {
			s.decodeKnown(kv, func(m resource.Message) {
				if slices.ContainsFunc(needs(m), func(to string) bool { return deleted[to] }) {
					v[m.GetName()] = m
				}
			})
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func wanted(changes []Change) []string {
	var names []string
	seen := make(map[string]bool, len(changes))
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for _, c := range changes {
		add(c.name())
		if c.Op != Delete {
			for _, r := range resource.References(c.Resource) {
				add(r.Name)
			}
			for _, name := range listedNames(c.Resource) {
				add(name)
			}
		}
	}
	return names
}

// listedNames are the names that overrides would have of the clients in a limit's own list.
func listedNames(m resource.Message) (names []string) {
	l, is := m.(*quotav1.Limit)
	if !is || len(l.GetOverrides()) == 0 {
		return nil
	}
	if ref, err := resource.Parse(l.GetName()); err != nil || ref.Tenant == "" || ref.Tenant == resource.AnyTenant {
		return nil
	}
	for _, o := range l.GetOverrides() {
		names = append(names, l.GetName()+"/overrides/"+resource.ClientID(o.GetClient()))
	}
	return names
}

// manyKeys: all resources are read instead of the needed ones, when there are at most so many times as many. A ranged
// read returns pageKeys at a time, one by name maxOps.
const manyKeys = pageKeys / maxOps

// loadAll reads all that is stored from the first of the names to the last, and keeps what the names are.
func (s *Store) loadAll(ctx context.Context, names []string, v view) error {
	wanted := make(map[string]bool, len(names))
	first, last := s.last(), ""
	for _, name := range names {
		wanted[name] = true
		first, last = min(first, s.keyOf(name)), max(last, s.keyOf(name))
	}
	return s.scan(ctx, first, last+"\x00", 0, func(kv *mvccpb.KeyValue) (bool, error) {
		if wanted[s.nameOf(kv.Key)] {
			s.decodeKnown(kv, func(m resource.Message) { v[m.GetName()] = m })
		}
		return true, nil
	})
}

// loadKeys reads the names, as many in one request as etcd allows.
func (s *Store) loadKeys(ctx context.Context, names []string, v view) error {
	for len(names) > 0 {
		n := min(len(names), maxOps)
		ops := make([]clientv3.Op, n)
		for i, name := range names[:n] {
			ops[i] = clientv3.OpGet(s.keyOf(name))
		}
		names = names[n:]
		got, err := s.txn(ctx, ops...)
		if err != nil {
			return err
		}
		for _, r := range got.Responses {
			for _, kv := range r.GetResponseRange().Kvs {
				s.decodeKnown(kv, func(m resource.Message) { v[m.GetName()] = m })
			}
		}
	}
	return nil
}

// decodeKnown decodes a value and passes it to visit, if this version knows its kind. A value that cannot be read
// counts as an empty resource of its name: it can be replaced and deleted, and references to it stay valid.
func (s *Store) decodeKnown(kv *mvccpb.KeyValue, visit func(resource.Message)) {
	ref, err := resource.Parse(s.nameOf(kv.Key))
	if err != nil {
		return
	}
	m, err := s.decode(kv)
	if err != nil {
		m = ref.Kind.New()
		resource.SetName(m, ref.String())
		resource.SetOutput(m, Etag(kv.ModRevision), nil)
	}
	visit(m)
}
