package operator

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/store/resource"
)

// finalizer keeps an object until its resource is deleted.
const finalizer = "titrate.dev/resource"

// InForce is the type of the only condition of a custom resource.
const InForce = "InForce"

// object is a custom resource as the API server has it.
type object struct {
	Kind     string          `json:"kind"`
	Metadata metadata        `json:"metadata"`
	Name     string          `json:"name"` // of the resource
	Spec     json.RawMessage `json:"spec"`
	Status   status          `json:"status"`

	kind resource.Kind
}

type metadata struct {
	Name              string     `json:"name"`
	UID               string     `json:"uid"`
	ResourceVersion   string     `json:"resourceVersion"`
	Generation        int64      `json:"generation"`
	CreationTimestamp time.Time  `json:"creationTimestamp"`
	DeletionTimestamp *time.Time `json:"deletionTimestamp"`
	Finalizers        []string   `json:"finalizers"`
}

type status struct {
	ObservedGeneration int64       `json:"observedGeneration"`
	Conditions         []condition `json:"conditions"`
}

type condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"` // True or False
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
	ObservedGeneration int64     `json:"observedGeneration"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

func (o *object) deleting() bool { return o.Metadata.DeletionTimestamp != nil }

func (o *object) guarded() bool { return slices.Contains(o.Metadata.Finalizers, finalizer) }

// String names the object as people see it in Kubernetes.
func (o *object) String() string { return o.Kind + " " + o.Metadata.Name }

// read reads the object as a document.
func (o *object) read() (resource.Message, error) {
	spec := o.Spec
	if spec == nil {
		spec = json.RawMessage("{}")
	}
	text, err := json.Marshal(struct {
		APIVersion string          `json:"apiVersion"`
		Kind       string          `json:"kind"`
		Name       string          `json:"name"`
		Spec       json.RawMessage `json:"spec"`
	}{document.APIVersion, o.Kind, o.Name, spec})
	if err != nil {
		return nil, err
	}
	all, err := document.Parse(o.String(), bytes.TrimSpace(text))
	if err != nil {
		return nil, errors.New(sentences(err))
	}
	return all[0].Resource, nil
}

// sentences returns the mistakes of a document without line numbers, since no file has these lines.
func sentences(err error) string {
	all := []error{err}
	if joined, is := err.(interface{ Unwrap() []error }); is {
		all = joined.Unwrap()
	}
	words := make([]string, len(all))
	for i, one := range all {
		words[i] = one.Error()
		var e *document.Error
		if errors.As(one, &e) {
			words[i] = strings.TrimPrefix(e.Field+": "+e.Message, ": ")
		}
	}
	return strings.Join(words, "; ")
}

// inOrder sorts objects: resources that others need first, then by age.
func inOrder(all []*object) {
	slices.SortFunc(all, func(a, b *object) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), a.Metadata.CreationTimestamp.Compare(b.Metadata.CreationTimestamp),
			cmp.Compare(a.Metadata.UID, b.Metadata.UID))
	})
}

// id distinguishes resources. A name of another kind, which is Invalid, stands for nothing.
func (o *object) id() string { return o.kind.String() + " " + o.Name }

// owners are the objects that stand for resources, by their ids: of several for one the oldest
// that is not being deleted. all is in order.
func owners(all []*object) map[string]*object {
	out := make(map[string]*object, len(all))
	for _, o := range all {
		if out[o.id()] == nil && !o.deleting() {
			out[o.id()] = o
		}
	}
	return out
}
