package compile

import (
	"maps"
	"slices"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
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
		b.resources[resource.Name(r)] = r
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
