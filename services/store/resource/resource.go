// Package resource is the vocabulary of what Titrate stores: the kinds, their names, and the reading of a rate.
//
// # Model
//
// A resource is a pool, a plan, a tenant, a quota, a limit or an override. On the wire and in etcd it travels in the
// envelope quotav1.Resource; in Go it is the message inside. Of and Unwrap go between the two.
//
// A name is a path of Google AIP-122:
//
//	pools/<pool>
//	plans/<plan>
//	tenants/<tenant>
//	tenants/<tenant>/quotas/<pool>
//	tenants/<tenant>/limits/<limit>
//	tenants/<tenant>/limits/<limit>/overrides/<client>
//
// A plan has quotas and limits as a tenant has.
//
// Ref is a name taken apart. The tenant "-" stands for every tenant that has no settings; it exists without being
// created.
//
// # Invariants
//
// Parse(r.String()) == r for every Ref that Parse returned. References(m) are
// all the names that must exist for m to mean something; they never include m.
//
// Everything here is pure and linear in the length of its input.
package resource

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// Message is one of *quotav1.Pool, *quotav1.Plan, *quotav1.Tenant, *quotav1.Quota, *quotav1.Limit and
// *quotav1.Override.
type Message interface {
	proto.Message
	GetName() string
	GetEtag() string
	GetUpdateTime() *timestamppb.Timestamp
	GetSet() string
}

// Of puts a resource into the envelope. It shares m, it does not copy. It panics if m is of no kind.
func Of(m Message) *quotav1.Resource {
	switch m := m.(type) {
	case *quotav1.Pool:
		return &quotav1.Resource{Kind: &quotav1.Resource_Pool{Pool: m}}
	case *quotav1.Plan:
		return &quotav1.Resource{Kind: &quotav1.Resource_Plan{Plan: m}}
	case *quotav1.Tenant:
		return &quotav1.Resource{Kind: &quotav1.Resource_Tenant{Tenant: m}}
	case *quotav1.Quota:
		return &quotav1.Resource{Kind: &quotav1.Resource_Quota{Quota: m}}
	case *quotav1.Limit:
		return &quotav1.Resource{Kind: &quotav1.Resource_Limit{Limit: m}}
	case *quotav1.Override:
		return &quotav1.Resource{Kind: &quotav1.Resource_Override{Override: m}}
	}
	panic("resource: not a resource message")
}

// Unwrap returns what is in the envelope, nil if it is empty.
func Unwrap(r *quotav1.Resource) Message {
	switch k := r.GetKind().(type) {
	case *quotav1.Resource_Pool:
		if k.Pool != nil {
			return k.Pool
		}
	case *quotav1.Resource_Plan:
		if k.Plan != nil {
			return k.Plan
		}
	case *quotav1.Resource_Tenant:
		if k.Tenant != nil {
			return k.Tenant
		}
	case *quotav1.Resource_Quota:
		if k.Quota != nil {
			return k.Quota
		}
	case *quotav1.Resource_Limit:
		if k.Limit != nil {
			return k.Limit
		}
	case *quotav1.Resource_Override:
		if k.Override != nil {
			return k.Override
		}
	}
	return nil
}

// Name returns the name of what is in the envelope, "" if it is empty.
func Name(r *quotav1.Resource) string {
	m := Unwrap(r)
	if m == nil {
		return ""
	}
	return m.GetName()
}

// outputs are the fields that resources of all kinds have. It panics if m is of no kind.
func outputs(m Message) (name, etag, set *string, updated **timestamppb.Timestamp) {
	switch m := m.(type) {
	case *quotav1.Pool:
		return &m.Name, &m.Etag, &m.Set, &m.UpdateTime
	case *quotav1.Plan:
		return &m.Name, &m.Etag, &m.Set, &m.UpdateTime
	case *quotav1.Tenant:
		return &m.Name, &m.Etag, &m.Set, &m.UpdateTime
	case *quotav1.Quota:
		return &m.Name, &m.Etag, &m.Set, &m.UpdateTime
	case *quotav1.Limit:
		return &m.Name, &m.Etag, &m.Set, &m.UpdateTime
	case *quotav1.Override:
		return &m.Name, &m.Etag, &m.Set, &m.UpdateTime
	}
	panic("resource: not a resource message")
}

// SetOutput sets what the server knows of a stored resource: its etag and the time of its last change (nil clears it).
func SetOutput(m Message, etag string, updated *timestamppb.Timestamp) {
	_, e, _, u := outputs(m)
	*e, *u = etag, updated
}

// Warnings are those in the status of a resource.
func Warnings(m Message) []string {
	switch m := m.(type) {
	case *quotav1.Plan:
		return m.GetStatus().GetWarnings()
	case *quotav1.Tenant:
		return m.GetStatus().GetWarnings()
	case *quotav1.Quota:
		return m.GetStatus().GetWarnings()
	case *quotav1.Limit:
		return m.GetStatus().GetWarnings()
	case *quotav1.Override:
		return m.GetStatus().GetWarnings()
	}
	return nil
}

// SetOwner sets the set that owns a resource, "" = none.
func SetOwner(m Message, set string) {
	_, _, owner, _ := outputs(m)
	*owner = set
}

// SetName sets a resource's name.
func SetName(m Message, name string) {
	n, _, _, _ := outputs(m)
	*n = name
}

// Spec returns a copy of m without what only the server writes: etag, update time, owner and status.
func Spec(m Message) Message {
	c := proto.Clone(m).(Message)
	SetOutput(c, "", nil)
	SetOwner(c, "")
	r := c.ProtoReflect()
	r.Clear(r.Descriptor().Fields().ByName("status"))
	return c
}

// Reference is a resource that another one needs, and the field that names it.
type Reference struct{ Name, Field string }

// References returns what m needs: a quota its parent and its pool, a limit its parent and the pools that it names, an
// override its limit, a tenant its plan. The tenant "-" needs no entry. A name that does not parse has no references.
func References(m Message) []Reference {
	ref, err := Parse(m.GetName())
	if err != nil {
		return nil
	}
	var all []Reference
	if ref.Kind.Child() && ref.Tenant != AnyTenant {
		all = append(all, Reference{ParentOf(m.GetName()), "name"})
	}
	switch m := m.(type) {
	case *quotav1.Tenant:
		if m.GetPlan() != "" {
			all = append(all, Reference{plans + m.GetPlan(), "plan"})
		}
	case *quotav1.Quota:
		all = append(all, Reference{Ref{Kind: Pool, ID: ref.ID}.String(), "name"})
	case *quotav1.Limit:
		for i, p := range m.GetPools() {
			all = append(all, Reference{Ref{Kind: Pool, ID: p}.String(), fmt.Sprintf("pools[%d]", i)})
		}
	}
	return all
}
