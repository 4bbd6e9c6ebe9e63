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

// The kinds, in the order in which they can be created.
const (
	Pool Kind = iota + 1
	Plan
	Tenant
	Quota
	Limit
)

// Kinds lists the kinds in the order in which they can be created.
var Kinds = []Kind{Pool, Plan, Tenant, Quota, Limit}

var kindNames = [...]struct{ singular, collection string }{
	Pool:   {"Pool", "pools"},
	Plan:   {"Plan", "plans"},
	Tenant: {"Tenant", "tenants"},
	Quota:  {"Quota", "quotas"},
	Limit:  {"Limit", "limits"},
}

// String returns the kind as documents write it: Pool, Plan, Tenant, Quota, Limit.
func (k Kind) String() string {
	if !k.known() {
		return "unknown"
	}
	return kindNames[k].singular
}

// Collection returns the kind as names write it: pools, plans, tenants, quotas, limits.
func (k Kind) Collection() string {
	if !k.known() {
		return ""
	}
	return kindNames[k].collection
}

// Child reports whether resources of the kind belong to a tenant or a plan.
func (k Kind) Child() bool { return k == Quota || k == Limit }

// New returns an empty resource of the kind, nil if there is no such kind.
func (k Kind) New() Message {
	switch k {
	case Pool:
		return &quotav1.Pool{}
	case Plan:
		return &quotav1.Plan{}
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
	case *quotav1.Plan:
		return Plan
	case *quotav1.Tenant:
		return Tenant
	case *quotav1.Quota:
		return Quota
	case *quotav1.Limit:
		return Limit
	}
	return 0
}

// Ref is a name taken apart. A quota or a limit has the ID of its tenant or of its plan; ID is the last segment.
type Ref struct {
	Kind         Kind
	Tenant, Plan string
	ID           string
}

// String returns the name, such as tenants/acme/quotas/api.
func (r Ref) String() string {
	if r.Kind.Child() {
		return r.Parent() + "/" + r.Kind.Collection() + "/" + r.ID
	}
	return r.Kind.Collection() + "/" + r.ID
}

// Parent returns the name of the tenant or the plan that a quota or limit belongs to, "" for the other kinds.
func (r Ref) Parent() string {
	switch {
	case !r.Kind.Child():
		return ""
	case r.Plan != "":
		return plans + r.Plan
	}
	return tenants + r.Tenant
}

const tenants, plans = "tenants/", "plans/"

// Owner returns the tenant or the plan that a resource is or belongs to, as config.LeftOut names it: acme, or
// plans/gold. It is "" for a pool.
func (r Ref) Owner() string {
	name := r.Parent()
	if r.Kind == Tenant || r.Kind == Plan {
		name = r.String()
	}
	return strings.TrimPrefix(name, tenants)
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
	case len(parts) == 2 && parts[0] == "plans":
		return checked(name, Ref{Kind: Plan, ID: parts[1]})
	case len(parts) == 2 && parts[0] == "tenants":
		return checked(name, Ref{Kind: Tenant, ID: parts[1]})
	case len(parts) == 4 && parts[2] == "quotas":
		return ofParent(name, parts, Ref{Kind: Quota, ID: parts[3]})
	case len(parts) == 4 && parts[2] == "limits":
		return ofParent(name, parts, Ref{Kind: Limit, ID: parts[3]})
	}
	return Ref{}, notAName(name)
}

func notAName(name string) error {
	return fmt.Errorf("%s is not a name: want pools/POOL, plans/PLAN, tenants/TENANT, tenants/TENANT/quotas/POOL or "+
		"tenants/TENANT/limits/LIMIT, or the last two with plans/PLAN", wording.Quote(name))
}

// ofParent checks the name of a quota or a limit.
func ofParent(name string, parts []string, r Ref) (Ref, error) {
	switch parent := parts[1]; {
	case parts[0] == "tenants":
		r.Tenant = parent
	case parts[0] != "plans":
		return Ref{}, notAName(name)
	case !idPattern.MatchString(parent):
		return Ref{}, fmt.Errorf("%s: plan %s is not an ID: %s", wording.Quote(name), wording.Quote(parent), IDRule)
	default:
		r.Plan = parent
	}
	return checked(name, r)
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
	if (r.Kind == Tenant || r.Kind.Child() && r.Plan == "") && tenant == "" {
		return Ref{}, fmt.Errorf("%q: the tenant's ID is empty", name)
	}
	return r, nil
}
