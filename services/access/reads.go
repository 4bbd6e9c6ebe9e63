package access

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/titrate/titrate/services/store/resource"
)

// tenantReads are the methods that a tenant-viewer may call, each with the field of its request that names a tenant.
// The answers of those without a field have what [ReadsOnly] allows. A tenant-viewer may call no other method that
// reads.
var tenantReads = map[string]string{
	"GetTenant": "name", "GetQuota": "name", "GetLimit": "name", "ListQuotas": "parent", "ListLimits": "parent",
	"GetOverride": "name", "ListOverrides": "parent",
	"ListUsage": "parent", "Why": "tenant", "Top": "selection.tenant", "ListTenants": "", "FindDecisions": "",
	"GetBucket": "name",
}

// notTenant reports whether a text is no ID of one tenant: tenants/* and tenants/- are about all of them.
func notTenant(text string) bool {
	r, err := resource.Parse("tenants/" + text)
	return err != nil || r.Kind != resource.Tenant || text == resource.AnyTenant
}

// ReadsOnly returns the tenants, without collection, that the caller may read, if it may not read everything.
func ReadsOnly(ctx context.Context) (tenants []string, only bool) {
	return readsOnly(callerOf(ctx).grants)
}

func readsOnly(grants []Grant) (tenants []string, only bool) {
	for _, g := range grants {
		switch g.Role {
		case Viewer, Editor, Admin:
			return nil, false
		case TenantViewer:
			tenants, only = append(tenants, g.Tenants...), true
		}
	}
	slices.Sort(tenants)
	return slices.Compact(tenants), only
}

// reads reports whether the grants let their caller read what a request of a method names.
func reads(grants []Grant, method string, names []string) bool {
	tenants, only := readsOnly(grants)
	if !only {
		return allowed(grants, Viewer, names)
	}
	field, is := tenantReads[method]
	return is && (field == "" || len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool {
		parts := strings.Split(name, "/")
		return len(parts) < 2 || parts[0] != "tenants" || !slices.Contains(tenants, parts[1])
	}))
}

// readNames are the names of what a request of a reading method is about. A tenant-viewer of one tenant means that
// tenant where its request names none, which is filled in.
func readNames(grants []Grant, method string, request proto.Message) []string {
	field := tenantReads[method]
	tenants, only := readsOnly(grants)
	if field == "" || !only {
		return nil
	}
	m, path := request.ProtoReflect(), strings.Split(field, ".")
	for _, step := range path[:len(path)-1] {
		m = m.Mutable(m.Descriptor().Fields().ByName(protoreflect.Name(step))).Message()
	}
	d := m.Descriptor().Fields().ByName(protoreflect.Name(path[len(path)-1]))
	collection := "tenants/"
	if len(path) > 1 { // a selection has names without collection
		collection = ""
	}
	if m.Get(d).String() == "" && len(tenants) == 1 {
		m.Set(d, protoreflect.ValueOfString(collection+tenants[0]))
	}
	switch name := m.Get(d).String(); {
	case name == "":
		return nil
	case collection == "":
		return []string{"tenants/" + name}
	default:
		return []string{name}
	}
}
