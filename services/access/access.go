// Package access decides who may call what on a coordinator, by the certificate that
// the caller shows.
//
// # Model
//
// A caller's identities are the URIs (SPIFFE) and DNS names of its verified client
// certificate. A policy file grants roles to identities:
//
//	grants:
//	  - {id: "spiffe://example.org/titrate/agent/*", role: agent}
//	  - {id: agents.example.org, role: agent, names: ["gateway-*"]}
//	  - {id: "spiffe://example.org/team/acme", role: editor, tenants: [acme]}
//	  - {id: "*", role: viewer}
//
//	role     may
//	agent    open the control stream, under its own name or one of names
//	viewer   read: get, list, why, top, history
//	editor   read, and change the named tenants with their quotas and limits
//	admin    read and change everything, and roll back
//
// A star in an id or a name stands for anything; an id without "://" other than "*" is
// one of DNS names. An agent's own name is the last path segment of its URI, its DNS
// name, or the first label of that.
//
// Without a file a certificate is an agent's if its URI ends with /agent/NAME or its DNS
// name begins with NAME.agent., and nobody else may call anything but those whom the
// operator has named as admins beside the policy.
//
// # Invariants
//
//   - What no grant allows is refused; a method without a rule is refused to all.
//   - A policy file that cannot be read leaves the one before in force.
//   - A stream ends within reviewEvery after its grant is gone, its certificate has
//     expired, or the CA of its certificate is no longer trusted.
package access

import (
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Role is what a grant allows.
type Role string

// The roles.
const (
	Agent  Role = "agent"
	Viewer Role = "viewer"
	Editor Role = "editor"
	Admin  Role = "admin"
)

// Grant gives a role to the callers whose certificate has the identity.
type Grant struct {
	ID      string   `yaml:"id"`
	Role    Role     `yaml:"role"`
	Tenants []string `yaml:"tenants"` // of an editor
	// Names that an agent may have; none = its own only.
	Names []string `yaml:"names"`
}

// withoutPolicy are the grants where there is no policy file.
var withoutPolicy = []Grant{{ID: "spiffe://*/agent/*", Role: Agent}, {ID: "*.agent.*", Role: Agent}}

// Policy is a list of grants. The zero value allows nothing.
type Policy struct {
	Grants []Grant `yaml:"grants"`
}

// Read reads a policy file. Unknown fields, roles and editors of nothing are errors.
func Read(path string) (*Policy, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := &Policy{}
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	if err := d.Decode(p); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i, g := range p.Grants {
		switch {
		case g.ID == "":
			return nil, fmt.Errorf("%s: grants[%d]: id is missing: want a URI or DNS name of a certificate", path, i)
		case !slices.Contains([]Role{Agent, Viewer, Editor, Admin}, g.Role):
			return nil, fmt.Errorf("%s: grants[%d]: role %q: want agent, viewer, editor or admin", path, i, g.Role)
		case (g.Role == Editor) != (len(g.Tenants) > 0):
			return nil, fmt.Errorf("%s: grants[%d]: an editor has tenants, and nobody else", path, i)
		case g.Role != Agent && len(g.Names) > 0:
			return nil, fmt.Errorf("%s: grants[%d]: only an agent has names", path, i)
		}
	}
	return p, nil
}

// of returns the grants of a caller with the identities.
func (p *Policy) of(ids []string) (out []Grant) {
	for _, g := range p.Grants {
		if slices.ContainsFunc(ids, g.matches) {
			out = append(out, g)
		}
	}
	return out
}

func (g *Grant) matches(id string) bool {
	if g.ID != "*" && strings.Contains(id, "://") != strings.Contains(g.ID, "://") {
		return false
	}
	return like(g.ID, id)
}

// like reports whether s is as the pattern says, in which a star stands for anything.
func like(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	if last == 0 {
		return s == pattern
	}
	rest, ok := strings.CutPrefix(s, parts[0])
	for _, part := range parts[1:last] {
		if i := strings.Index(rest, part); ok && i >= 0 {
			rest = rest[i+len(part):]
		} else {
			ok = false
		}
	}
	return ok && strings.HasSuffix(rest, parts[last])
}

// mayBe reports whether a caller with the identities may be the agent called name.
func (p *Policy) mayBe(ids []string, name string) bool {
	for _, g := range p.Grants {
		for _, id := range ids {
			if g.Role != Agent || !g.matches(id) {
				continue
			}
			if len(g.Names) == 0 && ownName(id, name) ||
				name != "" && slices.ContainsFunc(g.Names, func(pattern string) bool { return like(pattern, name) }) {
				return true
			}
		}
	}
	return false
}

// identities are the URIs and DNS names of a certificate.
func identities(c *x509.Certificate) (ids []string) {
	for _, u := range c.URIs {
		ids = append(ids, u.String())
	}
	return append(ids, c.DNSNames...)
}

// ownName reports whether an identity is that of the agent called name.
func ownName(id, name string) bool {
	if name == "" {
		return false
	}
	if scheme, path, is := strings.Cut(id, "://"); is && scheme != "" {
		return path[strings.LastIndexByte(path, '/')+1:] == name
	}
	label, _, _ := strings.Cut(id, ".")
	return id == name || label == name
}

// allowed reports whether the grants allow what a method needs on the named resources.
func allowed(grants []Grant, need Role, names []string) bool {
	for _, g := range grants {
		switch {
		case g.Role == need, need == Viewer && (g.Role == Editor || g.Role == Admin), need == Editor && g.Role == Admin:
			if g.Role != Editor || need == Viewer {
				return true
			}
		}
	}
	return need == Editor && len(names) > 0 &&
		!slices.ContainsFunc(names, func(name string) bool { return !edits(grants, name) })
}

// edits reports whether an editor's grant covers a resource.
func edits(grants []Grant, name string) bool {
	parts := strings.Split(name, "/")
	return len(parts) >= 2 && parts[0] == "tenants" && slices.ContainsFunc(grants, func(g Grant) bool {
		return g.Role == Editor && slices.Contains(g.Tenants, parts[1])
	})
}
