package resource

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/titrate/titrate/control/config"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/wording"
)

// AnyTenant is the ID of the tenant whose settings hold for all that have none.
const AnyTenant = config.DefaultTenant

// Kind says what a resource is.
type Kind uint8

// The four kinds, in the order in which they can be created.
const (
	Pool Kind = iota + 1
	Tenant
	Quota
	Limit
)

// Kinds lists the kinds in the order in which they can be created.
var Kinds = []Kind{Pool, Tenant, Quota, Limit}

var kindNames = [...]struct{ singular, collection string }{
	Pool:   {"Pool", "pools"},
	Tenant: {"Tenant", "tenants"},
	Quota:  {"Quota", "quotas"},
	Limit:  {"Limit", "limits"},
}

// String returns the kind as documents write it: Pool, Tenant, Quota, Limit.
func (k Kind) String() string {
	if !k.known() {
		return "unknown"
	}
	return kindNames[k].singular
}

// Collection returns the kind as names write it: pools, tenants, quotas, limits.
func (k Kind) Collection() string {
	if !k.known() {
		return ""
	}
	return kindNames[k].collection
}

// Child reports whether resources of the kind belong to a tenant.
func (k Kind) Child() bool { return k == Quota || k == Limit }

// New returns an empty resource of the kind, nil if there is no such kind.
func (k Kind) New() Message {
	switch k {
	case Pool:
		return &quotav1.Pool{}
	case Tenant:
		return &quotav1.Tenant{}
	case Quota:
		return &quotav1.Quota{}
	case Limit:
		return &quotav1.Limit{}
	}
	return nil
}

func (k Kind) known() bool { return k >= Pool && k <= Limit }

// KindOf returns the kind of a resource.
func KindOf(m Message) Kind {
	switch m.(type) {
	case *quotav1.Pool:
		return Pool
	case *quotav1.Tenant:
		return Tenant
	case *quotav1.Quota:
		return Quota
	case *quotav1.Limit:
		return Limit
	}
	return 0
}

// Ref is a name taken apart. Tenant is the owner's ID and only set for a quota or a limit; ID is the last segment.
type Ref struct {
	Kind   Kind
	Tenant string
	ID     string
}

// String returns the name, such as tenants/acme/quotas/api.
func (r Ref) String() string {
	if r.Kind.Child() {
		return "tenants/" + r.Tenant + "/" + r.Kind.Collection() + "/" + r.ID
	}
	return r.Kind.Collection() + "/" + r.ID
}

// Parent returns the name of the tenant that a quota or limit belongs to, "" for the other kinds.
func (r Ref) Parent() string {
	if !r.Kind.Child() {
		return ""
	}
	return "tenants/" + r.Tenant
}

var idPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// IDRule says what an ID is.
const IDRule = "1 to 63 of a-z 0-9 . _ -, with a letter or digit at both ends"

// Parse takes a name apart. The error says which part is wrong.
func Parse(name string) (Ref, error) {
	parts := strings.Split(name, "/")
	switch {
	case len(parts) == 2 && parts[0] == "pools":
		return checked(name, Ref{Kind: Pool, ID: parts[1]})
	case len(parts) == 2 && parts[0] == "tenants":
		return checked(name, Ref{Kind: Tenant, ID: parts[1]})
	case len(parts) == 4 && parts[0] == "tenants" && parts[2] == "quotas":
		return checked(name, Ref{Kind: Quota, Tenant: parts[1], ID: parts[3]})
	case len(parts) == 4 && parts[0] == "tenants" && parts[2] == "limits":
		return checked(name, Ref{Kind: Limit, Tenant: parts[1], ID: parts[3]})
	}
	return Ref{}, fmt.Errorf("%s is not a name: want pools/POOL, tenants/TENANT, "+
		"tenants/TENANT/quotas/POOL or tenants/TENANT/limits/LIMIT", wording.Quote(name))
}

func checked(name string, r Ref) (Ref, error) {
	tenant := r.Tenant
	if r.Kind == Tenant {
		tenant = r.ID
	}
	if tenant != "" && tenant != AnyTenant && !idPattern.MatchString(tenant) {
		return Ref{}, fmt.Errorf("%s: tenant %s is not an ID: %s", wording.Quote(name), wording.Quote(tenant),
			IDRule)
	}
	if r.Kind != Tenant && !idPattern.MatchString(r.ID) {
		return Ref{}, fmt.Errorf("%s: %s is not an ID: %s", wording.Quote(name), wording.Quote(r.ID), IDRule)
	}
	if (r.Kind == Tenant || r.Kind.Child()) && tenant == "" {
		return Ref{}, fmt.Errorf("%q: the tenant's ID is empty", name)
	}
	return r, nil
}
