package resource

import (
	"cmp"
	"fmt"
	"net/url"
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
	Override
)

// Kinds lists the kinds in the order in which they can be created.
var Kinds = []Kind{Pool, Plan, Tenant, Quota, Limit, Override}

var kindNames = [...]struct{ singular, collection string }{
	Pool:     {"Pool", "pools"},
	Plan:     {"Plan", "plans"},
	Tenant:   {"Tenant", "tenants"},
	Quota:    {"Quota", "quotas"},
	Limit:    {"Limit", "limits"},
	Override: {"Override", "overrides"},
}

// String returns the kind as documents write it: Pool, Plan, Tenant, Quota, Limit, Override.
func (k Kind) String() string {
	if !k.known() {
		return "unknown"
	}
	return kindNames[k].singular
}

// Collection returns the kind as names write it: pools, plans, tenants, quotas, limits, overrides.
func (k Kind) Collection() string {
	if !k.known() {
		return ""
	}
	return kindNames[k].collection
}

// Child reports whether resources of the kind belong to a tenant or a plan, or to a limit.
func (k Kind) Child() bool { return k == Quota || k == Limit || k == Override }

// Last reports whether nothing refers to resources of the kind.
func (k Kind) Last() bool { return k == Quota || k == Override }

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
	case Override:
		return &quotav1.Override{}
	}
	return nil
}

func (k Kind) known() bool { return k >= Pool && k <= Override }

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
	case *quotav1.Override:
		return Override
	}
	return 0
}

// Ref is a name taken apart. A quota or a limit has the ID of its tenant or of its plan, an override also that of its
// limit; ID is the last segment.
type Ref struct {
	Kind         Kind
	Tenant, Plan string
	Limit        string // of an override
	ID           string
}

// String returns the name, such as tenants/acme/quotas/api.
func (r Ref) String() string {
	if r.Kind.Child() {
		return r.Parent() + "/" + r.Kind.Collection() + "/" + r.ID
	}
	return r.Kind.Collection() + "/" + r.ID
}

// Parent returns the name of what a resource belongs to: the tenant or the plan of a quota or a limit, the limit of an
// override, "" for the other kinds.
func (r Ref) Parent() string {
	switch {
	case !r.Kind.Child():
		return ""
	case r.Kind == Override:
		return tenants + r.Tenant + "/limits/" + r.Limit
	case r.Plan != "":
		return plans + r.Plan
	}
	return tenants + r.Tenant
}

// ParentsOf are all that the override of a name counts for: its limit, its tenant, and "" for all.
func ParentsOf(name string) [3]string {
	limit := ParentOf(name)
	return [3]string{limit, ParentOf(limit), ""}
}

// ParentOf is Parent of a name, as a part of it.
func ParentOf(name string) string {
	name = name[:max(0, strings.LastIndexByte(name, '/'))]
	return name[:max(0, strings.LastIndexByte(name, '/'))]
}

const tenants, plans = "tenants/", "plans/"

// Owner returns the tenant or the plan that a resource is or belongs to, as config.LeftOut names it: acme, or
// plans/gold. It is "" for a pool.
func (r Ref) Owner() string {
	switch r.Kind {
	case Tenant, Plan:
		return strings.TrimPrefix(r.String(), tenants)
	case Override:
		return r.Tenant
	}
	return strings.TrimPrefix(r.Parent(), tenants)
}

// IDRule says what an ID is.
const IDRule = "1 to 63 of a-z 0-9 . _ -, with a letter or digit at both ends"

// isID reports whether a text keeps IDRule. No regexp: an apply of 400,000 names asks ten times of each.
func isID(id string) bool {
	if id == "" || len(id) > 63 || !isAlphanumeric(id[0]) || !isAlphanumeric(id[len(id)-1]) {
		return false
	}
	for i := range len(id) {
		if b := id[i]; !isAlphanumeric(b) && b != '.' && b != '_' && b != '-' {
			return false
		}
	}
	return true
}

func isAlphanumeric(b byte) bool { return b >= 'a' && b <= 'z' || b >= '0' && b <= '9' }

// Parse takes a name apart. The error says which part is wrong.
func Parse(name string) (Ref, error) {
	var all [7]string // no name has so many parts
	parts := all[:0]
	for rest, more := name, true; more && len(parts) < len(all); {
		var part string
		part, rest, more = strings.Cut(rest, "/")
		parts = append(parts, part)
	}
	if len(parts)%2 == 0 {
		ref := Ref{Kind: ofCollection(parts[len(parts)-2]), ID: parts[len(parts)-1]}
		switch kind := ref.Kind; {
		case len(parts) == 2 && (kind == Pool || kind == Plan || kind == Tenant):
			return checked(name, ref)
		case len(parts) == 4 && (kind == Quota || kind == Limit):
			return ofParent(name, parts, ref)
		case len(parts) == 6 && kind == Override && strings.HasPrefix(name, tenants) && parts[2] == "limits":
			return override(name, parts)
		}
	}
	return Ref{}, notAName(name)
}

// ofCollection returns the kind of a collection as names write it; 0: there is none.
func ofCollection(name string) Kind {
	for _, k := range Kinds {
		if kindNames[k].collection == name {
			return k
		}
	}
	return 0
}

func notAName(name string) error {
	return fmt.Errorf("%s is not a name: want pools/POOL, plans/PLAN, tenants/TENANT, tenants/TENANT/quotas/POOL or "+
		"tenants/TENANT/limits/LIMIT, or the last two with plans/PLAN, or tenants/TENANT/limits/LIMIT/overrides/CLIENT",
		wording.Quote(name))
}

// ofParent checks the name of a quota or a limit.
func ofParent(name string, parts []string, r Ref) (Ref, error) {
	switch parent := parts[1]; {
	case parts[0] == "tenants":
		r.Tenant = parent
	case parts[0] != "plans":
		return Ref{}, notAName(name)
	case !isID(parent):
		return Ref{}, fmt.Errorf("%s: plan %s is not an ID: %s", wording.Quote(name), wording.Quote(parent), IDRule)
	default:
		r.Plan = parent
	}
	return checked(name, r)
}

// override checks the name of an override.
func override(name string, parts []string) (Ref, error) {
	of, err := checked(name, Ref{Kind: Limit, Tenant: parts[1], ID: parts[3]})
	if err != nil {
		return Ref{}, err
	}
	if of.Tenant == AnyTenant {
		return Ref{}, fmt.Errorf("%s: an override is of a tenant's own limit: write those of every tenant in the "+
			"limit, under overrides", wording.Quote(name))
	}
	if isPlain(parts[5]) && len(parts[5]) <= MaxClient {
		return Ref{Kind: Override, Tenant: parts[1], Limit: parts[3], ID: parts[5]}, nil
	}
	client, err := url.PathUnescape(parts[5])
	switch want := ClientID(client); {
	case client == "" || len(client) > MaxClient:
		return Ref{}, fmt.Errorf("%s: the client's name has %d bytes, want 1 to %d", wording.Quote(name),
			len(client), MaxClient)
	case err != nil || want != parts[5]:
		return Ref{}, fmt.Errorf("%s: want client %s written as %s: each byte but a-z A-Z 0-9 . _ ~ @ : - is %% and "+
			"two of 0-9 A-F", wording.Quote(name), wording.Quote(cmp.Or(client, parts[5])),
			cmp.Or(want, ClientID(parts[5])))
	}
	return Ref{Kind: Override, Tenant: parts[1], Limit: parts[3], ID: parts[5]}, nil
}

// MaxClient is the most bytes of the name of a client in an override.
const MaxClient = 256

// ClientID is a client's name as the last segment of an override's name.
func ClientID(client string) string {
	if isPlain(client) {
		return client
	}
	out := make([]byte, 0, len(client))
	for i := range len(client) {
		if b := client[i]; plain(b) {
			out = append(out, b)
		} else {
			out = fmt.Appendf(out, "%%%02X", b)
		}
	}
	return string(out)
}

// isPlain reports whether a client's name, of one byte at least, stands in a name as it is.
func isPlain(client string) bool {
	for i := range len(client) {
		if !plain(client[i]) {
			return false
		}
	}
	return client != ""
}

func plain(b byte) bool {
	return isAlphanumeric(b) || b >= 'A' && b <= 'Z' || strings.IndexByte("._~@:-", b) >= 0
}

// Client is the client that an override is for, "" of another kind.
func (r Ref) Client() string {
	if r.Kind != Override {
		return ""
	}
	client, _ := url.PathUnescape(r.ID)
	return client
}

// OverridePart names an override in config.LeftOut.Limit.
func OverridePart(r Ref) string { return r.Limit + "/overrides/" + r.ID }

func checked(name string, r Ref) (Ref, error) {
	tenant := r.Tenant
	if r.Kind == Tenant {
		tenant = r.ID
	}
	if tenant != "" && tenant != AnyTenant && !isID(tenant) {
		return Ref{}, fmt.Errorf("%s: tenant %s is not an ID: %s", wording.Quote(name), wording.Quote(tenant),
			IDRule)
	}
	if r.Kind != Tenant && !isID(r.ID) {
		return Ref{}, fmt.Errorf("%s: %s is not an ID: %s", wording.Quote(name), wording.Quote(r.ID), IDRule)
	}
	if (r.Kind == Tenant || r.Kind.Child() && r.Plan == "") && tenant == "" {
		return Ref{}, fmt.Errorf("%q: the tenant's ID is empty", name)
	}
	return r, nil
}
