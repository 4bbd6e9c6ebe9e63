package compile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// Book is the set of resources that a coordinator streams, by resource name.
// The zero value is empty and ready. Not safe for concurrent use.
type Book struct {
	resources map[string]*quotav1.Resource
}

// Replace puts a full snapshot in the place of all that was there.
func (b *Book) Replace(resources []*quotav1.Resource) {
	b.resources = make(map[string]*quotav1.Resource, len(resources))
	b.Change(resources, nil)
}

// Change takes in changed resources and forgets the deleted ones, by name. A
// deleted name that is not there is no error: the state is as wanted.
func (b *Book) Change(resources []*quotav1.Resource, deleted []string) {
	if b.resources == nil {
		b.resources = make(map[string]*quotav1.Resource, len(resources))
	}
	for _, r := range resources {
		b.resources[Name(r)] = r
	}
	for _, name := range deleted {
		delete(b.resources, name)
	}
}

// Len is the number of resources.
func (b *Book) Len() int { return len(b.resources) }

// Resources returns all resources ordered by name. They are shared: don't
// change them.
func (b *Book) Resources() []*quotav1.Resource {
	out := make([]*quotav1.Resource, 0, len(b.resources))
	for _, name := range slices.Sorted(maps.Keys(b.resources)) {
		out = append(out, b.resources[name])
	}
	return out
}

// Name returns a resource's name, "" if it has no kind that this build knows.
func Name(r *quotav1.Resource) string {
	switch k := r.GetKind().(type) {
	case *quotav1.Resource_Pool:
		return k.Pool.GetName()
	case *quotav1.Resource_Tenant:
		return k.Tenant.GetName()
	case *quotav1.Resource_Quota:
		return k.Quota.GetName()
	case *quotav1.Resource_Limit:
		return k.Limit.GetName()
	}
	return ""
}

// parts takes a resource name apart: parts("tenants/a/limits/b", "tenants",
// "limits") is a, b.
func parts(name string, collections ...string) ([]string, error) {
	split := strings.Split(name, "/")
	if len(split) != 2*len(collections) {
		return nil, malformed(name, collections)
	}
	ids := make([]string, len(collections))
	for i, c := range collections {
		if split[2*i] != c || split[2*i+1] == "" {
			return nil, malformed(name, collections)
		}
		ids[i] = split[2*i+1]
	}
	return ids, nil
}

func malformed(name string, collections []string) error {
	return fmt.Errorf("resource name %q is malformed: want %s/ID", name, strings.Join(collections, "/ID/"))
}
